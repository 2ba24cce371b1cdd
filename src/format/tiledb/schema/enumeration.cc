#include "format/tiledb/schema/enumeration.h"

#include <penstock/error.h>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "format/tiledb/generic_tile.h"

namespace penstock::format::tiledb {
namespace {

constexpr uint32_t kNewestEnumerationVersion = 0;

void check(const Enumeration& enumeration) {
  if (!enumeration.var_length()) {
    const uint64_t value_bytes = size_of(enumeration.type) * uint64_t{enumeration.cell_val_num};
    if (value_bytes == 0 || enumeration.data.size() % value_bytes != 0) {
      throw CorruptData(concat("enumeration data of ", enumeration.data.size(),
                               " bytes is no multiple of its values' ", value_bytes));
    }
    return;
  }
  uint64_t previous = 0;
  for (size_t i = 0; i < enumeration.offsets.size(); ++i) {
    const uint64_t offset = enumeration.offsets[i];
    if (offset < previous || offset > enumeration.data.size() || (i == 0 && offset != 0)) {
      throw CorruptData(concat("enumeration offset ", i, " is out of order or range: ", offset));
    }
    previous = offset;
  }
  if (enumeration.offsets.empty() && !enumeration.data.empty()) {
    throw CorruptData("enumeration has data but no offsets");
  }
}

}  // namespace

size_t Enumeration::size() const noexcept {
  if (var_length()) return offsets.size();
  return data.size() / (size_of(type) * cell_val_num);
}

std::span<const std::byte> Enumeration::value(size_t index) const {
  if (var_length()) {
    const uint64_t end = index + 1 < offsets.size() ? offsets[index + 1] : data.size();
    return std::span(data).subspan(offsets[index], end - offsets[index]);
  }
  const size_t value_bytes = size_of(type) * cell_val_num;
  return std::span(data).subspan(index * value_bytes, value_bytes);
}

std::string_view Enumeration::string_value(size_t index) const {
  const auto bytes = value(index);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Enumeration Enumeration::parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto version = reader.read<uint32_t>("enumeration version");
  if (version > kNewestEnumerationVersion) {
    throw Unsupported(concat("enumeration has version ", version, "; read is up to ",
                             kNewestEnumerationVersion, ". A newer penstock may read it"));
  }
  Enumeration enumeration;
  enumeration.name =
      reader.take_name(reader.read<uint32_t>("enumeration name length"), "enumeration name");
  enumeration.file_name =
      reader.take_name(reader.read<uint32_t>("enumeration file length"), "enumeration file");
  const auto type = reader.read<uint8_t>("enumeration type");
  if (type > kLastDataType) {
    throw CorruptData(concat("enumeration type is unknown: ", type));
  }
  enumeration.type = static_cast<DataType>(type);
  enumeration.cell_val_num = reader.read<uint32_t>("enumeration cell_val_num");
  enumeration.ordered = reader.read<uint8_t>("enumeration ordered flag") != 0;
  const auto data = reader.take(reader.read<uint64_t>("enumeration data size"), "enumeration data");
  enumeration.data.assign(data.begin(), data.end());
  if (enumeration.var_length()) {
    const auto offsets_bytes = reader.read<uint64_t>("enumeration offsets size");
    const auto offsets = reader.take(offsets_bytes, "enumeration offsets");
    if (offsets_bytes % 8 != 0) {
      throw CorruptData(concat("enumeration offsets size is no multiple of 8: ", offsets_bytes));
    }
    enumeration.offsets.resize(offsets.size() / 8);
    if (!offsets.empty()) {
      std::memcpy(enumeration.offsets.data(), offsets.data(), offsets.size());
    }
  }
  if (!reader.empty()) {
    throw CorruptData(concat("enumeration has bytes left over: ", reader.remaining()));
  }
  check(enumeration);
  return enumeration;
}

std::shared_ptr<const Enumeration> load_enumeration(const io::Store& store,
                                                    const std::string& array_path,
                                                    const ArraySchema& schema,
                                                    std::string_view name) {
  const auto found = schema.enumeration_files.find(name);
  if (found == schema.enumeration_files.end()) {
    std::string known;
    for (const auto& entry : schema.enumeration_files) {
      known += (known.empty() ? "" : ", ") + entry.first;
    }
    throw NotFound("no enumeration \"" + std::string(name) + "\"; choose from " + known + ", in " +
                   array_path);
  }
  const std::string path = io::join(io::join(array_path, "__schema/__enumerations"), found->second);
  const GenericTile tile = read_generic_tile(store, path);
  return with_place(
      [&] { return std::make_shared<const Enumeration>(Enumeration::parse(tile.bytes.span())); },
      [&] { return path; });
}

}  // namespace penstock::format::tiledb
