#include "format/hdf5/hdf5_array.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/concat.h"
#include "base/utf8.h"
#include "format/chunked/chunk_grid.h"
#include "format/hdf5/attributes.h"
#include "format/hdf5/heaps/global_heap.h"

namespace penstock::format::hdf5 {
namespace {

using chunked::StringForm;

/// Strings of fixed size are the longest.
constexpr uint32_t kMostCellBytes = uint32_t{1} << 20;

const Message& expect_message(const ObjectHeader& header, MessageType type, const char* what) {
  const Message* const message = header.find(type);
  if (message == nullptr) throw CorruptData(std::string("an array without ") + what);
  return *message;
}

/// h5py calls a zlib stream gzip.
std::string filters_for_people(const codec::ChunkPipeline& pipeline) {
  std::string text = pipeline.text();
  if (const size_t at = text.find("zlib"); at != std::string::npos) text.replace(at, 4, "gzip");
  return text;
}

}  // namespace

Hdf5Array::Hdf5Array(FilePtr file, const ObjectHeader& header, const std::string& path)
    : file_(std::move(file)) {
  info_.path = path;
  with_place(
      [&] {
        if (header.find(MessageType::kExternalFiles) != nullptr) {
          throw Unsupported(
              "an array whose values lie in other files is not read; write the file again with "
              "anndata");
        }
        ByteReader type_reader(expect_message(header, MessageType::kDatatype, "a datatype").body);
        const Datatype type = read_datatype(type_reader);
        ByteReader space(expect_message(header, MessageType::kDataspace, "a dataspace").body);
        space_ = read_dataspace(*file_, space);
        // An array without cells: its attributes say what it stands for.
        info_.shape = space_.is_null ? std::vector<uint64_t>{0} : space_.shape;
        take_type(type);
        take_layout(header);
        take_fill_value(header, type);
        chunked::expect_sound(info_);
        chunk_count_ = info_.chunk_count();
        attributes_ = read_attributes(*file_, header);
      },
      [&] { return info_.path; });
}

void Hdf5Array::take_type(const Datatype& type) {
  if (type.bytes > kMostCellBytes) {
    throw Unsupported(concat("cells of ", type.bytes, " bytes are not read"));
  }
  info_.cell_bytes = type.bytes;
  info_.big_endian = type.big_endian && type.bytes > 1;
  switch (type.type_class) {
    case TypeClass::kString:
      info_.type = DataType::kStringUtf8;
      info_.strings = type.string_form;
      info_.big_endian = false;
      break;
    case TypeClass::kVariable:
      if (!type.is_string) throw Unsupported(type.text() + " are not read");
      if (type.bytes != heap_reference_bytes(*file_)) {
        throw CorruptData(concat("references to strings have ", type.bytes, " bytes"));
      }
      info_.type = DataType::kStringUtf8;
      info_.strings = StringForm::kReferences;
      info_.big_endian = false;
      break;
    case TypeClass::kCompound:
      info_.type = DataType::kBlob;
      info_.big_endian = false;
      for (const Datatype::Member& member : type.members) take_member(member);
      break;
    default:
      info_.type = type.number();
  }
}

/// Members that are neither numbers nor strings are left out.
void Hdf5Array::take_member(const Datatype::Member& member) {
  chunked::RecordField field;
  field.name = member.name;
  field.offset = static_cast<uint32_t>(member.offset);
  field.bytes = member.type->bytes;
  field.big_endian = member.type->big_endian && field.bytes > 1;
  if (member.type->type_class == TypeClass::kString) {
    field.type = DataType::kStringUtf8;
    field.strings = member.type->string_form;
    field.big_endian = false;
  } else if (member.type->type_class == TypeClass::kVariable && member.type->is_string &&
             field.bytes == heap_reference_bytes(*file_)) {
    field.type = DataType::kStringUtf8;
    field.strings = StringForm::kReferences;
    field.big_endian = false;
  } else {
    try {
      field.type = member.type->number();
    } catch (const Unsupported&) {
      return;
    }
  }
  info_.fields.push_back(std::move(field));
}

void Hdf5Array::take_layout(const ObjectHeader& header) {
  const Message& message = expect_message(header, MessageType::kLayout, "a layout");
  const size_t rank = info_.shape.size();
  layout_ = read_layout(*file_, message, rank, info_.cell_bytes);
  if (layout_.kind == Layout::Kind::kChunked) {
    info_.chunk_shape = layout_.chunk_shape;
    if (const Message* const filters = header.find(MessageType::kFilters)) {
      ByteReader reader(filters->body);
      info_.pipeline = read_filters(reader, info_.cell_bytes);
    }
    std::string lengths;
    for (const uint64_t length : info_.chunk_shape) {
      lengths += (lengths.empty() ? "" : " x ") + std::to_string(length);
    }
    info_.layout = "hdf5, chunks of " + lengths + ", " + filters_for_people(info_.pipeline);
    return;
  }
  info_.chunk_shape = info_.shape;
  if (rank > 1) info_.chunk_shape[0] = 1;
  for (uint64_t& length : info_.chunk_shape) length = std::max<uint64_t>(length, 1);
  info_.layout = layout_.kind == Layout::Kind::kCompact ? "hdf5, compact" : "hdf5, contiguous";
  const uint64_t bytes =
      checked_mul<uint64_t>(info_.cells(), info_.cell_bytes, "the size of an array");
  if (file_->is_undefined(layout_.address)) return;
  if (bytes > layout_.length) {
    throw CorruptData(concat("an array of ", bytes, " bytes is stored in ", layout_.length));
  }
  file_->position_of(layout_.address, bytes, "an array");
}

void Hdf5Array::take_fill_value(const ObjectHeader& header, const Datatype& type) {
  info_.fill_value.assign(info_.cell_bytes, std::byte{0});
  const std::vector<std::byte> stored = read_fill_value(header);
  if (stored.empty()) return;
  if (type.type_class == TypeClass::kVariable) {
    ByteReader reader(stored);
    if (read_heap_reference(*file_, reader).length == 0) return;
    throw Unsupported("a fill value of strings of variable length is not read");
  }
  if (stored.size() != info_.cell_bytes) {
    throw CorruptData(
        concat("a fill value of ", stored.size(), " bytes for cells of ", info_.cell_bytes));
  }
  info_.fill_value = stored;
  if (info_.big_endian) std::reverse(info_.fill_value.begin(), info_.fill_value.end());
}

const ChunkIndex& Hdf5Array::index() const {
  return index_.get([&] {
    return with_place(
        [&] {
          ChunkedShape shape;
          shape.shape = space_.shape;
          shape.most_shape = space_.most_shape;
          shape.chunk_shape = info_.chunk_shape;
          shape.chunk_bytes = info_.decoded_bytes();
          shape.filtered = !info_.pipeline.filters().empty();
          return ChunkIndex::read(*file_, layout_, shape);
        },
        [&] { return info_.path; });
  });
}

/// Whether the array ends within the chunk.
bool Hdf5Array::is_cut(uint64_t chunk) const {
  std::vector<uint64_t> position(info_.shape.size());
  chunked::ChunkGrid(info_).position_of(chunk, position);
  for (size_t d = 0; d < position.size(); ++d) {
    if ((position[d] + 1) * info_.chunk_shape[d] > info_.shape[d]) return true;
  }
  return false;
}

std::vector<chunked::ChunkPlace> Hdf5Array::places(std::span<const uint64_t> chunks) const {
  std::vector<chunked::ChunkPlace> places(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i] >= chunk_count_) {
      throw InvalidArgument(concat("chunk ", chunks[i], " of an array of ", chunk_count_,
                                   " chunks, in ", info_.path));
    }
    chunked::ChunkPlace& place = places[i];
    if (layout_.kind != Layout::Kind::kChunked) {
      if (file_->is_undefined(layout_.address)) continue;
      const uint64_t length = info_.decoded_bytes();
      place = {file_->path(),
               file_->position_of(layout_.address + chunks[i] * length, length, "an array"), length,
               0};
      continue;
    }
    const StoredChunk* const stored = index().find(chunks[i]);
    if (stored == nullptr) continue;
    place = {file_->path(), file_->position_of(stored->address, stored->bytes, "a chunk"),
             stored->bytes, stored->skipped_filters};
    if (layout_.unfiltered_edges && is_cut(chunks[i])) place.skipped_filters = ~uint32_t{0};
  }
  return places;
}

double Hdf5Array::stored_bytes_per_chunk() const {
  if (layout_.kind != Layout::Kind::kChunked) return static_cast<double>(info_.decoded_bytes());
  if (chunk_count_ == 0) return 0;
  double bytes = 0;
  for (const StoredChunk& chunk : index().chunks()) bytes += chunk.bytes;
  return bytes / static_cast<double>(chunk_count_);
}

std::string Hdf5Array::version() const {
  const std::string own = file_->store()->version(file_->path());
  return own.empty() ? std::string() : concat("hdf5 ", info_.path, " ", own);
}

chunked::Strings Hdf5Array::strings_of(std::span<const std::byte> cells, unsigned threads) const {
  return with_place([&] { return read_heap_strings(*file_, cells, threads); },
                    [&] { return info_.path; });
}

}  // namespace penstock::format::hdf5
