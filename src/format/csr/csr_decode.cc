#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/concat.h"
#include "format/cells/stored_ids.h"
#include "format/chunked/swap_bytes.h"
#include "format/csr/csr_reader.h"
#include "io/range_coalescing.h"

namespace penstock::format {
namespace {

constexpr size_t kFinishRows = 128;
/// Bytes behind the staged arrays, so that kernels may read whole vectors.
constexpr size_t kSlack = 64;
/// A segment is raw if more than one value in this many has no code.
constexpr size_t kRawShare = 4;

}  // namespace

void CsrDecode::set_reader(std::shared_ptr<const CsrReader> reader) {
  reader_ = std::move(reader);
  elements_.id_bytes = reader_->id_bytes();
}

void CsrDecode::start(std::vector<int64_t> rows) {
  const CsrArray& array = reader_->array();
  const RowOffsets& offsets = array.offsets();
  rows_.assign(rows.size(), {});
  runs_.clear();
  pieces_.clear();
  requests_.clear();
  bytes_read_ = span_ = 0;
  for (CsrSegment& segment : elements_.segments) segment.begin = segment.end = 0;
  for (auto& wide : wide_) wide.clear();
  if (rows.empty()) return;
  const bool close = array.addresses_elements();
  const uint64_t base = offsets.begin(static_cast<uint64_t>(rows.front()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t begin = offsets.begin(static_cast<uint64_t>(rows[i]));
    const uint64_t end = offsets.end(static_cast<uint64_t>(rows[i]));
    rows_[i].stored = static_cast<uint32_t>(end - begin);
    rows_[i].begin = close ? span_ : begin - base;
    span_ = rows_[i].begin + (end - begin);
    if (begin == end) continue;
    if (!runs_.empty() && runs_.back().end == begin) {
      runs_.back().end = end;
    } else {
      runs_.push_back({begin, end, begin - rows_[i].begin});
    }
  }
  if (span_ >= 0xFFFFFFFFU - kSlack) {
    throw Unsupported(concat("rows ", rows.front(), " … ", rows.back(), " have ", span_,
                             " non-zeros, more than fit in memory at once, in ", array.path()));
  }
  const size_t tasks = task_count(1);
  if (wide_.size() < tasks) wide_.resize(tasks);
}

// The chunks under the runs. Of a chunk behind a codec, one piece from the first chosen element to
// the last; else a piece for each run.
void CsrDecode::find_pieces(CsrPart part) {
  const uint64_t length = reader_->array().chunk_length(part);
  const bool cut = reader_->array().addresses_elements(part);
  const size_t first = pieces_.size();
  for (const Run& run : runs_) {
    for (uint64_t chunk = run.begin / length; chunk <= (run.end - 1) / length; ++chunk) {
      const uint64_t from = std::max(run.begin, chunk * length);
      const uint64_t to = std::min(run.end, (chunk + 1) * length);
      if (!cut && pieces_.size() > first && pieces_.back().chunk == chunk) {
        pieces_.back().end = to;
      } else {
        pieces_.push_back({part, chunk, from, to, run.shift, 0, {}, {}});
      }
    }
  }
}

void CsrDecode::fetch() {
  for (const CsrPart part : {CsrPart::kIndices, CsrPart::kData}) {
    reader_->array().array(part).expect_unchanged();
  }
  find_pieces(CsrPart::kIndices);
  const size_t data = pieces_.size();
  find_pieces(CsrPart::kData);
  auto& segments = elements_.segments;
  segments.resize(pieces_.size() - data);
  for (size_t i = data; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    piece.segment = i - data;
    CsrSegment& segment = segments[piece.segment];
    segment.begin = piece.begin - piece.shift;
    segment.end = piece.end - piece.shift;
    segment.raw = false;
    segment.escapes.clear();
  }
  place_pieces();
  elements_.ids.resize_discard(span_ * elements_.id_bytes + kSlack);
  elements_.codes.resize_discard(span_ + kSlack);
}

// Finds where the pieces are stored and reads them, neighbours in an object together.
void CsrDecode::place_pieces() {
  const CsrArray& array = reader_->array();
  std::vector<io::ByteRange> wanted(pieces_.size());
  for (const CsrPart part : {CsrPart::kIndices, CsrPart::kData}) {
    std::vector<uint64_t> chunks;
    std::vector<size_t> of;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].part != part) continue;
      of.push_back(i);
      chunks.push_back(pieces_[i].chunk);
    }
    auto places = array.array(part).places(chunks);
    const uint64_t length = array.chunk_length(part);
    const uint32_t cell = array.array(part).info().cell_bytes;
    for (size_t k = 0; k < of.size(); ++k) {
      Piece& piece = pieces_[of[k]];
      piece.place = std::move(places[k]);
      if (piece.place.absent()) continue;
      chunked::expect_backed(array.array(part).info(), piece.place);
      wanted[of[k]] = {piece.place.offset, piece.place.length};
      if (!array.addresses_elements(part)) continue;
      wanted[of[k]] = {piece.place.offset + (piece.begin - piece.chunk * length) * cell,
                       (piece.end - piece.begin) * cell};
    }
  }
  struct Object {
    std::vector<size_t> pieces;
    io::CoalescedReads plan;
  };
  std::vector<Object> objects;
  const io::Store& store = array.array(CsrPart::kData).store();
  uint64_t bytes = 0;
  for (size_t begin = 0, end = 0; begin < pieces_.size(); begin = end) {
    Object object;
    std::vector<io::ByteRange> ranges;
    for (; end < pieces_.size() && pieces_[end].place.path == pieces_[begin].place.path; ++end) {
      object.pieces.push_back(end);
      ranges.push_back(wanted[end]);
    }
    if (pieces_[begin].place.absent()) continue;
    object.plan = io::coalesce(ranges, store.traits().coalescing);
    bytes = checked_add(bytes, object.plan.read_bytes, "stored bytes of a unit");
    objects.push_back(std::move(object));
  }
  // Units differ in size. Memory that none has touched costs nothing.
  if (bytes < PTRDIFF_MAX / 2) stored_.reserve_discard(std::bit_ceil(bytes));
  stored_.resize_discard(bytes);
  std::byte* next = stored_.data();
  for (const Object& object : objects) {
    const size_t first = requests_.size();
    for (const io::ByteRange& read : object.plan.reads) {
      requests_.push_back({pieces_[object.pieces[0]].place.path, read.offset, {next, read.length}});
      next += read.length;
    }
    for (size_t i = 0; i < object.pieces.size(); ++i) {
      const size_t piece = object.pieces[i];
      if (wanted[piece].length == 0) continue;
      const io::CoalescedPiece& at = object.plan.pieces[i];
      pieces_[piece].stored =
          requests_[first + at.read].out.subspan(at.offset, wanted[piece].length);
    }
  }
  bytes_read_ = bytes;
  store.read_many(requests_);
}

size_t CsrDecode::task_count(size_t phase) const {
  return phase == 0 ? pieces_.size() : (rows_.size() + kFinishRows - 1) / kFinishRows;
}

void CsrDecode::run(size_t phase, size_t task) {
  if (phase == 1) {
    finish(task);
    return;
  }
  const Piece& piece = pieces_[task];
  with_place([&] { decode(piece); },
             [&] {
               const CsrArray& array = reader_->array();
               const std::string& path = array.array(piece.part).info().path;
               // Chunks without codecs may be pieces of stored ones (forward_array.h).
               return array.addresses_elements(piece.part)
                          ? path
                          : concat("chunk ", piece.chunk, " of ", path);
             });
}

void CsrDecode::decode(const Piece& piece) {
  thread_local codec::ChunkScratch scratch;
  thread_local Buffer swapped;
  const chunked::ArrayInfo& info = reader_->array().array(piece.part).info();
  const uint32_t cell = info.cell_bytes;
  const uint64_t chunk_begin = piece.chunk * reader_->array().chunk_length(piece.part);
  const auto take = [&](uint64_t element, codec::CellBytes cells) {
    const size_t count = cells.bytes.size() / cell;
    if (info.big_endian && cell > 1) {
      chunked::to_little_endian(cells, cell, swapped);
      cells = {std::as_const(swapped).span(), false};
    }
    if (piece.part == CsrPart::kIndices) {
      take_ids(piece, element, cells, count);
    } else {
      take_values(piece, element, cells, count);
    }
  };
  if (piece.place.absent()) {
    Buffer filled((piece.end - piece.begin) * cell);
    for (size_t i = 0; i < filled.size(); i += cell) {
      std::memcpy(filled.data() + i, info.fill_value.data(), cell);
    }
    const codec::CellBytes cells{std::as_const(filled).span(), false};
    const size_t count = piece.end - piece.begin;
    piece.part == CsrPart::kIndices ? take_ids(piece, piece.begin, cells, count)
                                    : take_values(piece, piece.begin, cells, count);
    return;
  }
  if (reader_->array().addresses_elements(piece.part)) {
    take(piece.begin, {piece.stored, false});
    return;
  }
  info.pipeline.decode_parts(piece.stored, piece.place.skipped_filters, info.decoded_bytes(), cell,
                             (piece.begin - chunk_begin) * cell, (piece.end - chunk_begin) * cell,
                             scratch, [&](uint64_t first_byte, const codec::CellBytes& cells) {
                               take(chunk_begin + first_byte / cell, cells);
                             });
}

void CsrDecode::take_ids(const Piece& piece, uint64_t element, const codec::CellBytes& cells,
                         size_t count) {
  const DataType type = reader_->array().array(CsrPart::kIndices).info().type;
  const uint64_t at = element - piece.shift;
  const uint64_t most =
      elements_.id_bytes == 2
          ? narrow_stored_ids(type, cells, count, elements_.ids.as<uint16_t>().data() + at)
          : narrow_stored_ids(type, cells, count, elements_.ids.as<uint32_t>().data() + at);
  if (count != 0 && most >= static_cast<uint64_t>(reader_->array().info().column_domain_end)) {
    bad_id(element, count);
  }
}

void CsrDecode::bad_id(uint64_t element, size_t count) const {
  const CsrArray& array = reader_->array();
  throw CorruptData(concat("column ids must be in 0 … ", array.info().column_domain_end - 1,
                           ", but rows ", array.offsets().row_of(element), " … ",
                           array.offsets().row_of(element + count - 1), " have another"));
}

void CsrDecode::take_values(const Piece& piece, uint64_t element, const codec::CellBytes& stored,
                            size_t count) {
  CsrSegment& segment = elements_.segments[piece.segment];
  const DataType type = reader_->row_layout().value_type;
  const size_t cell = reader_->row_layout().value_bytes;
  const uint64_t at = element - piece.shift;
  codec::CellBytes cells = stored;
  Buffer plain;
  const auto unshuffle = [&] {
    if (!cells.shuffled) return;
    chunked::unshuffle(cells, static_cast<uint32_t>(cell), plain);
    cells = {std::as_const(plain).span(), false};
  };
  if (!segment.raw) {
    const bool first = at == segment.begin;
    if (!codes_from_planes(type)) unshuffle();
    const size_t most = first && cell > 1 ? count / kRawShare : count;
    segment.raw =
        !code_values(type, cells, count, static_cast<uint32_t>(at), most,
                     reinterpret_cast<uint8_t*>(elements_.codes.data()) + at, segment.escapes);
    if (!segment.raw) return;
    segment.values.resize_discard((segment.end - segment.begin) * cell);
  }
  unshuffle();
  std::memcpy(segment.values.data() + (at - segment.begin) * cell, cells.bytes.data(),
              count * cell);
}

void CsrDecode::finish(size_t task) {
  const size_t begin = task * kFinishRows;
  const size_t count = std::min(kFinishRows, rows_.size() - begin);
  finish_rows(elements_, reader_->context(), std::span(rows_).subspan(begin, count), wide_[task]);
}

size_t CsrDecode::packed_bytes(uint32_t row) const {
  return reader_->row_layout().record_bytes(rows_[row].nnz, rows_[row].wide_count);
}

void CsrDecode::pack(uint32_t row, std::byte* destination) const {
  pack_csr_row(elements_, reader_->row_layout(), rows_[row], wide_[row / kFinishRows], destination);
}

size_t CsrDecode::memory_bytes() const noexcept {
  size_t bytes = stored_.capacity() + elements_.ids.capacity() + elements_.codes.capacity() +
                 rows_.capacity() * sizeof(CsrRow) + runs_.capacity() * sizeof(Run) +
                 pieces_.capacity() * sizeof(Piece) +
                 requests_.capacity() * sizeof(io::ReadRequest);
  for (const CsrSegment& segment : elements_.segments) bytes += segment.values.capacity();
  for (const auto& wide : wide_) bytes += wide.capacity();
  return bytes;
}

void CsrDecode::take_buffers(UnitDecode& finished) {
  if (auto* const other = dynamic_cast<CsrDecode*>(&finished)) {
    std::swap(elements_.ids, other->elements_.ids);
    std::swap(elements_.codes, other->elements_.codes);
    elements_.ids.resize_discard(span_ * elements_.id_bytes + kSlack);
    elements_.codes.resize_discard(span_ + kSlack);
  }
}

}  // namespace penstock::format
