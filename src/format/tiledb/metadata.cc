#include "format/tiledb/metadata.h"

#include <penstock/error.h>

#include <cstring>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/concat.h"
#include "format/tiledb/generic_tile.h"
#include "format/tiledb/integer_value.h"

namespace penstock::format::tiledb {

std::optional<std::string> MetadataValue::as_string() const {
  const bool is_text = is_string(type) || type == DataType::kBlob || type == DataType::kAny;
  if (!is_text || size_of(type) != 1) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return is_utf8(text) ? std::optional(std::string(text)) : std::nullopt;
}

std::optional<int64_t> MetadataValue::as_int() const {
  if (count != 1 || (!is_integer(type) && type != DataType::kBool)) return std::nullopt;
  return read_integer(type, bytes.data());
}

std::optional<double> MetadataValue::as_double() const {
  if (count != 1) return std::nullopt;
  if (type == DataType::kFloat64) {
    double value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  if (type == DataType::kFloat32) {
    float value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  const auto integer = as_int();
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

void apply_metadata(Metadata& metadata, std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  while (!reader.empty()) {
    const auto key_length = reader.read<uint32_t>("metadata key length");
    const std::string key(reader.take_name(key_length, "metadata key"));
    const auto deleted = reader.read<uint8_t>("metadata deletion flag");
    metadata.erase(key);
    if (deleted != 0) continue;
    MetadataValue value;
    const auto type = reader.read<uint8_t>("metadata type");
    if (type > kLastDataType) {
      throw CorruptData(concat("metadata type is unknown: ", type, ", key ", key));
    }
    value.type = static_cast<DataType>(type);
    value.count = reader.read<uint32_t>("metadata count");
    const auto length =
        checked_mul<uint64_t>(value.count, size_of(value.type), "metadata value size");
    const auto stored = reader.take(length, "metadata value");
    value.bytes.assign(stored.begin(), stored.end());
    metadata.emplace(key, std::move(value));
  }
}

Metadata load_metadata(const io::Store& store, const std::string& object_path,
                       const TimeRange& range) {
  const std::string directory = io::join(object_path, "__meta");
  Metadata metadata;
  uint64_t stored = 0;  // bytes of all files
  for (const TimestampedName& file : visible_files(store, directory, range)) {
    const std::string path = io::join(directory, file.name);
    const GenericTile tile = read_generic_tile(store, path);
    with_place([&] { apply_metadata(metadata, tile.bytes.span()); }, [&] { return path; });
    stored += tile.stored_bytes;
    // Counts kept bytes only: a value that was written many times is kept once.
    uint64_t kept = 0;
    for (const auto& [key, value] : metadata) kept += value.bytes.size();
    if (kept > most_inflated(stored, kBelievedListBytes)) {
      throw CorruptData(concat("metadata come to ", kept, " bytes, of which only ", stored,
                               " are stored, in ", directory));
    }
  }
  return metadata;
}

std::string metadata_string(const Metadata& metadata, std::string_view key,
                            std::string_view object_path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    throw NotFound("no metadata \"" + std::string(key) + "\", in " + std::string(object_path));
  }
  if (auto text = found->second.as_string()) return *std::move(text);
  throw CorruptData("metadata \"" + std::string(key) + "\" is no text but " +
                    std::string(name_of(found->second.type)) + ", in " + std::string(object_path));
}

}  // namespace penstock::format::tiledb
