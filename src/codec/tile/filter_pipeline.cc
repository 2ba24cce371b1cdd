#include "codec/tile/filter_pipeline.h"

#include <penstock/error.h>

#include <algorithm>

#include "base/checked.h"
#include "base/concat.h"
#include "codec/compressors/dictionary.h"
#include "codec/compressors/rle.h"
#include "codec/compressors/zstd.h"
#include "codec/tile/expansion.h"
#include "codec/tile/filter_step.h"

namespace penstock::codec {
namespace {

/// Most bytes between two filters, for a chunk of `original` bytes. Real filters make data at most
/// 3 times as large (RLE of single bytes). Without a bound, a few stored bytes could claim
/// gigabytes.
uint64_t plausible_bytes(uint64_t original) {
  return checked_add(checked_mul<uint64_t>(64, original, "chunk length"), uint64_t{1} << 20,
                     "chunk length");
}

/// The two streams of a chunk on their way through the filters, last filter first.
class ChunkDecode {
 public:
  ChunkDecode(std::span<const FilterConfig> filters, std::span<const DataType> types,
              uint64_t cell_bytes, uint32_t format_version, uint64_t limit, const Chunk& chunk,
              DecodeScratch& scratch)
      : filters_(filters),
        types_(types),
        cell_bytes_(cell_bytes),
        format_version_(format_version),
        limit_(limit),
        metadata_(chunk.metadata),
        data_(chunk.data),
        scratch_(scratch) {}

  /// Undoes filter `index`, into `fixed` if given. The first filter leaves no metadata.
  void undo(size_t index, std::optional<std::span<std::byte>> fixed) {
    const auto none = index == 0 ? std::optional(std::span<std::byte>()) : std::nullopt;
    StepTarget data_target{&scratch_.data[data_slot_], fixed, limit_};
    StepTarget metadata_target{&scratch_.metadata[metadata_slot_], none, limit_};
    FilterStep step(filters_[index], types_[index], cell_bytes_, format_version_, metadata_, data_,
                    data_target, metadata_target);
    run_step(step);
    if (step.data_result().data() == scratch_.data[data_slot_].data()) data_slot_ ^= 1;
    if (step.metadata_result().data() == scratch_.metadata[metadata_slot_].data()) {
      metadata_slot_ ^= 1;
    }
    data_ = step.data_result();
    metadata_ = step.metadata_result();
  }

  /// Undoes the first filter, which must be one that encodes offsets.
  void undo_strings(StringTarget& target) {
    if (filters_.empty() ||
        (filters_[0].type != FilterType::kRle && filters_[0].type != FilterType::kDictionary)) {
      throw CorruptData("a filter that stores string offsets does not come first");
    }
    FilterStep step(filters_[0], types_[0], cell_bytes_, format_version_, metadata_, data_, {}, {});
    if (filters_[0].type == FilterType::kRle) {
      decode_rle_strings(step, target);
    } else {
      decode_dictionary_strings(step, target);
    }
    metadata_ = step.metadata_result();
  }

  std::span<const std::byte> data() const noexcept { return data_; }
  std::span<const std::byte> metadata() const noexcept { return metadata_; }

  void expect_no_metadata() const {
    if (!metadata_.empty()) {
      throw CorruptData(
          concat("chunk has ", metadata_.size(), " bytes of metadata that no filter reads"));
    }
  }

 private:
  std::span<const FilterConfig> filters_;
  std::span<const DataType> types_;
  uint64_t cell_bytes_;
  uint32_t format_version_;
  uint64_t limit_;
  std::span<const std::byte> metadata_;
  std::span<const std::byte> data_;
  DecodeScratch& scratch_;
  size_t data_slot_ = 0;
  size_t metadata_slot_ = 0;
};

/// From this format on (TileDB 2.17), a filter uses the output type of the filter before it. Older
/// formats used the type of the cells for every filter: a byte shuffle after a float scale to int16
/// had 4 bytes. TileDB 2.17 and later misread such tiles (format18.bin.gz of the tests has some);
/// Penstock reads them as they were written.
constexpr uint32_t kFirstFormatWithOutputTypes = 20;

/// Input type of each filter when the tile was written.
void find_types(std::span<const FilterConfig> filters, DataType type, uint32_t format_version,
                std::vector<DataType>& types) {
  types.clear();
  for (const FilterConfig& filter : filters) {
    types.push_back(type);
    const DataType output = output_type(filter, type);  // checks the options, too
    if (format_version >= kFirstFormatWithOutputTypes) type = output;
  }
}

void check_count(std::string_view what, uint64_t got, uint64_t expected) {
  if (got != expected) {
    throw CorruptData(concat("number of ", what, " is ", got, ", expected ", expected));
  }
}

void check_size(std::string_view what, uint64_t got, uint64_t expected) {
  if (got != expected) {
    throw CorruptData(concat(what, " has ", got, " bytes, expected ", expected));
  }
}

}  // namespace

FilterPipeline::FilterPipeline(std::vector<FilterConfig> filters, uint32_t max_chunk_bytes)
    : filters_(std::move(filters)), max_chunk_bytes_(max_chunk_bytes) {}

void FilterPipeline::expect_readable() const {
  for (const FilterConfig& filter : filters_) codec::expect_readable(filter.type);
}

uint64_t FilterPipeline::decoded_bytes(std::span<const std::byte> stored) const {
  uint64_t total = 0;
  Chunk chunk;
  for (ChunkReader chunks(stored); chunks.next(chunk);) {
    const uint64_t most = most_decoded_bytes(filters_, chunk.data.size());
    if (chunk.original_bytes > most) {
      throw CorruptData(concat("a chunk of ", chunk.data.size(), " stored bytes claims to hold ",
                               chunk.original_bytes, ", its filters can make ", most,
                               " of them at most"));
    }
    total += chunk.original_bytes;
  }
  return total;
}

void FilterPipeline::decode(std::span<const std::byte> stored, DataType type,
                            uint32_t format_version, std::span<std::byte> out,
                            DecodeScratch& scratch, uint64_t cell_bytes) const {
  find_types(filters_, type, format_version, scratch.types);
  if (cell_bytes == 0) cell_bytes = size_of(type);
  Chunk chunk;
  size_t done = 0;
  for (ChunkReader chunks(stored); chunks.next(chunk);) {
    if (chunk.original_bytes > out.size() - done) {
      throw CorruptData(concat("stored tile is longer than the ", out.size(), " bytes expected"));
    }
    const auto target = out.subspan(done, chunk.original_bytes);
    ChunkDecode decode(filters_, scratch.types, cell_bytes, format_version,
                       plausible_bytes(chunk.original_bytes), chunk, scratch);
    for (size_t index = filters_.size(); index-- > 0;) {
      decode.undo(index, index == 0 ? std::optional(target) : std::nullopt);
    }
    decode.expect_no_metadata();
    if (decode.data().data() != target.data()) {
      check_size("chunk", decode.data().size(), target.size());
      std::copy(decode.data().begin(), decode.data().end(), target.begin());
    }
    done += target.size();
  }
  check_size("stored tile", done, out.size());
}

CellBytes FilterPipeline::decode_chunk_planes(const Chunk& chunk, DataType type,
                                              uint32_t format_version,
                                              DecodeScratch& scratch) const {
  find_types(filters_, type, format_version, scratch.types);
  ChunkDecode decode(filters_, scratch.types, size_of(type), format_version,
                     plausible_bytes(chunk.original_bytes), chunk, scratch);
  for (size_t index = filters_.size(); index-- > 0;) {
    if (index == 0 && filters_[0].type == FilterType::kByteShuffle) {
      // One part in practice; several parts, or a part that is not whole, are decoded as usual.
      ByteReader metadata(decode.metadata());
      if (metadata.remaining() == 2 * sizeof(uint32_t) &&
          metadata.read<uint32_t>("number of parts") == 1 &&
          metadata.read<uint32_t>("part length") == decode.data().size() &&
          decode.data().size() % size_of(type) == 0) {
        check_size("chunk", decode.data().size(), chunk.original_bytes);
        return {decode.data(), true};
      }
    }
    decode.undo(index, std::nullopt);
  }
  decode.expect_no_metadata();
  check_size("chunk", decode.data().size(), chunk.original_bytes);
  return {decode.data(), false};
}

bool FilterPipeline::decode_chunk_runs(const Chunk& chunk, std::vector<CellRun>& runs) const {
  return filters_.size() == 1 && filters_[0].type == FilterType::kZstd &&
         decode_zstd_runs(chunk, runs);
}

bool FilterPipeline::stores_string_offsets(DataType type, bool variable_length) const {
  if (!variable_length) return false;
  if (type != DataType::kStringAscii && type != DataType::kStringUtf8) return false;
  return std::any_of(filters_.begin(), filters_.end(), [](const FilterConfig& filter) {
    return filter.type == FilterType::kRle || filter.type == FilterType::kDictionary;
  });
}

void FilterPipeline::decode_strings(std::span<const std::byte> stored, DataType type,
                                    uint32_t format_version, Buffer& characters,
                                    std::vector<uint64_t>& offsets, DecodeScratch& scratch,
                                    StringTileSize expected) const {
  find_types(filters_, type, format_version, scratch.types);
  ChunkReader chunks(stored);
  StringTarget target{characters, offsets, expected};
  Chunk chunk;
  if (!chunks.next(chunk)) {
    check_count("strings in an empty tile", 0, expected.strings);
    characters.resize_discard(0);
    offsets.clear();
    return;
  }
  check_count("chunks of a string tile", chunks.chunk_count(), 1);
  check_size("chunk of a string tile", chunk.original_bytes, expected.characters);
  // An id or a run takes up to 16 bytes besides the characters.
  const uint64_t limit = plausible_bytes(checked_add<uint64_t>(
      expected.characters, checked_mul<uint64_t>(16, expected.strings, "strings"), "strings"));
  ChunkDecode decode(filters_, scratch.types, size_of(type), format_version, limit, chunk, scratch);
  for (size_t index = filters_.size(); index-- > 1;) decode.undo(index, std::nullopt);
  decode.undo_strings(target);
  decode.expect_no_metadata();
  chunks.next(chunk);  // checks that nothing follows
}

}  // namespace penstock::codec
