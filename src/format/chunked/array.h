#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "codec/chunk/chunk_pipeline.h"
#include "io/store.h"

// An array of chunks, as zarr and HDF5 store them: a regular grid of chunks of equal shape, each
// filtered on its own. What lies above (format/anndata/) does not know which container it reads.
//
//   ArrayInfo info = array->info();               shape, chunk shape, type, codecs; nothing is read
//   auto places = array->places(chunks);          object, offset and length of each chunk
//   info.pipeline.decode(bytes, place.skipped_filters, out, scratch)
//
// Chunks are numbered in C order over the grid. Chunks at the upper edges are stored whole, with
// cells beyond the shape that mean nothing. An absent chunk is all fill value.
//
// Immutable and safe from any thread.

namespace penstock::format::chunked {

/// How strings are stored; the type of such arrays is kStringUtf8 (kStringAscii for bytes).
enum class StringForm : uint8_t {
  kNone,             ///< no strings
  kVlenUtf8,         ///< codec/vlen_utf8.h in each chunk
  kFixedUtf32,       ///< cell_bytes / 4 code points, zero-padded
  kFixedBytes,       ///< cell_bytes bytes, zero-padded
  kFixedTerminated,  ///< the same, to the first zero byte
  kFixedSpaces,      ///< the same, padded with spaces
  kReferences,       ///< cell_bytes that say where the string is: Array::strings_of()
};

/// Strings as UTF-8: `offsets` has one entry more than strings.
struct Strings {
  std::vector<std::byte> characters;
  std::vector<uint64_t> offsets;
};

/// A field of the cells of an array of records: a number, a boolean or a string.
struct RecordField {
  std::string name;
  DataType type = DataType::kFloat32;
  StringForm strings = StringForm::kNone;
  bool big_endian = false;
  uint32_t offset = 0;  ///< in the record
  uint32_t bytes = 0;
};

struct ArrayInfo {
  std::string path;  ///< for people
  std::vector<uint64_t> shape;
  std::vector<uint64_t> chunk_shape;   ///< of the chunks that are decoded; inner ones of shards
  DataType type = DataType::kFloat32;  ///< kBool for booleans, one byte each
  uint32_t cell_bytes = 4;             ///< 0 for strings of variable length
  StringForm strings = StringForm::kNone;
  bool big_endian = false;
  std::vector<RecordField> fields;  ///< of records, in order; their type is kBlob
  codec::ChunkPipeline pipeline;
  std::vector<std::byte> fill_value;  ///< cell_bytes of them, little-endian; all 0 if none is set
  std::string fill_text;              ///< of strings
  std::string layout;                 ///< for people: "zarr v3, chunks of 125605 in shards, blosc"

  uint64_t cells() const;          ///< product of the shape
  uint64_t chunk_cells() const;    ///< product of the chunk shape
  uint64_t chunk_count() const;    ///< chunks of the grid, absent ones included
  uint64_t decoded_bytes() const;  ///< of a chunk; 0 for strings of variable length
};

/// Where the stored bytes of a chunk lie.
struct ChunkPlace {
  std::string path;  ///< empty: the chunk is absent and all fill value
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t skipped_filters = 0;  ///< bit i: filter i was not applied

  bool absent() const noexcept { return path.empty(); }
};

/// Whether the stored bytes are the cells: every filter was left out.
bool no_filter_applied(const ArrayInfo& info, uint32_t skipped_filters);

/// Throws CorruptData unless the stored bytes of a chunk can decode to its cells, so that their
/// size is safe to allocate. For cells of fixed size, and chunks that are not absent.
void expect_backed(const ArrayInfo& info, const ChunkPlace& place);

class Array {
 public:
  virtual ~Array() = default;

  virtual const ArrayInfo& info() const = 0;
  virtual const nlohmann::json& attributes() const = 0;
  virtual const io::Store& store() const = 0;

  /// Places of chunks, in the order given. May read: indexes of shards (kept), sizes of objects.
  virtual std::vector<ChunkPlace> places(std::span<const uint64_t> chunks) const = 0;

  /// Expected stored bytes of one chunk, from a few chunks spread over the array. Every call
  /// returns the same value.
  virtual double stored_bytes_per_chunk() const = 0;

  /// Throws CorruptData if the array was written again since it was opened. Costs little; a remote
  /// store is not asked.
  virtual void expect_unchanged() const {}

  /// The strings that cells of StringForm::kReferences refer to.
  virtual Strings strings_of(std::span<const std::byte> cells, unsigned threads) const;

  /// A text that changes when a stored chunk is written, from the versions of all objects; empty if
  /// the store cannot tell. Asks for each object.
  virtual std::string version() const = 0;
};

using ArrayPtr = std::shared_ptr<const Array>;

/// A group of arrays and groups. Members are opened when they are asked for.
class Group {
 public:
  virtual ~Group() = default;

  virtual const std::string& path() const = 0;  ///< for people
  virtual const nlohmann::json& attributes() const = 0;

  /// Names of the members, sorted. Lists the store if no metadata names them: call it only where
  /// few objects lie below.
  virtual std::vector<std::string> members() const = 0;
  /// Null if there is no group of that name. Names may have slashes.
  virtual std::shared_ptr<const Group> group(const std::string& name) const = 0;
  virtual ArrayPtr array(const std::string& name) const = 0;  ///< null if there is none

  /// Announces that most of its arrays will be read. Lists a remote folder once, and does nothing
  /// for members that lie in one file.
  virtual void will_read() const {}
};

using GroupPtr = std::shared_ptr<const Group>;

}  // namespace penstock::format::chunked
