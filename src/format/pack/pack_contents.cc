#include "format/pack/pack_contents.h"

#include <penstock/error.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/concat.h"
#include "base/hash/hex.h"
#include "format/row_file/row_file.h"

namespace penstock::format::pack {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "penstock-pack";
constexpr std::string_view kDigits = "0123456789abcdef";

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

std::string bytes_of_hex(std::string_view text) {
  if (text.size() % 2 != 0) throw CorruptData("an odd number of hexadecimal digits");
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t high = kDigits.find(text[i]);
    const size_t low = kDigits.find(text[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      throw CorruptData("no hexadecimal digits: " + std::string(text.substr(i, 2)));
    }
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

json to_json(const PackedLayerContents& layer) {
  return {{"name", layer.name},
          {"value_type", std::string(name_of(layer.value_type))},
          {"shape", {layer.rows, layer.columns}},
          {"nonzeros", layer.nonzeros},
          {"stored_bytes", layer.stored_bytes},
          {"key", layer.key},
          {"files", layer.files}};
}

DataType type_named(const std::string& name) {
  for (uint8_t code = 0; code <= kLastDataType; ++code) {
    if (name_of(static_cast<DataType>(code)) == name) return static_cast<DataType>(code);
  }
  throw CorruptData("no value type: " + name);
}

std::string checked_name(const json& value) {
  auto name = value.get<std::string>();
  if (!plain_name(name)) throw CorruptData("a name that is none: " + name);
  return name;
}

PackedLayerContents layer_from(const json& value) {
  PackedLayerContents layer;
  layer.name = checked_name(value.at("name"));
  layer.value_type = type_named(value.at("value_type").get<std::string>());
  layer.rows = value.at("shape").at(0).get<int64_t>();
  layer.columns = value.at("shape").at(1).get<int64_t>();
  if (layer.rows < 0 || layer.columns < 0) {
    throw CorruptData(concat("a shape of ", layer.rows, " x ", layer.columns));
  }
  layer.nonzeros = value.at("nonzeros").get<uint64_t>();
  layer.stored_bytes = value.at("stored_bytes").get<uint64_t>();
  layer.key = value.at("key").get<std::string>();
  for (const json& file : value.at("files")) layer.files.push_back(checked_name(file));
  return layer;
}

std::string text_of(const json& value) {
  return value.dump(1, ' ', false, json::error_handler_t::replace);
}

json to_json(const FileSums& sums) {
  json files = json::object();
  for (const auto& [path, sum] : sums) files[path] = {sum.bytes, sum.crc32c};
  return files;
}

FileSums sums_from(const json& files) {
  FileSums sums;
  for (const auto& [path, sum] : files.items()) {
    sums[path] = {sum.at(0).get<uint64_t>(), sum.at(1).get<uint32_t>()};
  }
  return sums;
}

/// Checksum of all other fields. Their text does not depend on how they were read.
std::string checksum_of(const json& all) { return hex(content_key(text_of(all))); }

template <typename Named>
std::string names_of(const std::vector<Named>& all) {
  std::string names;
  for (const auto& one : all) names += (names.empty() ? "" : ", ") + one.name;
  return names.empty() ? " nor any other" : "; choose from " + names;
}

}  // namespace

bool plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() < 256 &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string PackContents::to_json() const {
  json measured = json::array();
  for (const PackedMeasurement& measurement : measurements) {
    json layers = json::array();
    for (const PackedLayerContents& layer : measurement.layers)
      layers.push_back(pack::to_json(layer));
    measured.push_back({{"name", measurement.name}, {"layers", layers}});
  }
  json all = {{"format", kFormat},
              {"version", kPackVersion},
              {"source", source},
              {"key", key},
              {"timestamp_ms", timestamp_ms ? json(*timestamp_ms) : json(nullptr)},
              {"metadata", metadata},
              {"measurements", measured},
              {"tables", pack::to_json(tables)},
              {"rows", rows ? json(hex_of(rows->serialize())) : json(nullptr)}};
  // Parse the text again first: invalid UTF-8 in names is replaced when written.
  all = json::parse(text_of(all));
  all["checksum"] = checksum_of(all);
  return text_of(all) + "\n";
}

PackContents PackContents::from_json(std::string_view text) {
  try {
    json all = json::parse(text);
    if (all.at("format").get<std::string>() != kFormat) throw CorruptData("not a pack");
    if (const auto version = all.at("version").get<uint64_t>(); version != kPackVersion) {
      throw Unsupported(
          concat("a pack of version ", version, "; this Penstock reads version ", kPackVersion,
                 ": use a Penstock of its time, or pack the experiment again (overwrite)"));
    }
    const auto checksum = all.at("checksum").get<std::string>();
    all.erase("checksum");
    if (checksum != checksum_of(all)) throw CorruptData("a wrong checksum");
    PackContents contents;
    contents.source = all.at("source").get<std::string>();
    contents.key = all.at("key").get<std::string>();
    if (!all.at("timestamp_ms").is_null()) {
      contents.timestamp_ms = all.at("timestamp_ms").get<uint64_t>();
    }
    contents.metadata = all.at("metadata").get<std::map<std::string, std::string>>();
    if (!all.at("rows").is_null()) {
      const std::string bytes = bytes_of_hex(all.at("rows").get<std::string>());
      contents.rows = RowSelection::deserialize(std::as_bytes(std::span(bytes)));
    }
    for (const json& value : all.at("measurements")) {
      PackedMeasurement measurement;
      measurement.name = checked_name(value.at("name"));
      for (const json& layer : value.at("layers")) {
        measurement.layers.push_back(layer_from(layer));
      }
      contents.measurements.push_back(std::move(measurement));
    }
    if (all.contains("tables")) contents.tables = sums_from(all["tables"]);
    return contents;
  } catch (const json::exception& error) {
    throw CorruptData("not the contents of a pack: " + std::string(error.what()));
  }
}

PackContents PackContents::load(const io::Store& store, const std::string& folder) {
  const std::string path = io::join(folder, kContentsName);
  const Buffer bytes = store.read_all(path);
  return with_place(
      [&] {
        return from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      },
      [&] { return path; });
}

const PackedMeasurement& PackContents::measurement(std::string_view wanted,
                                                   const std::string& place) const {
  for (const PackedMeasurement& measurement : measurements) {
    if (measurement.name == wanted) return measurement;
  }
  throw NotFound("there is no measurement '" + std::string(wanted) + "'" + names_of(measurements) +
                 ", in " + place);
}

const PackedLayerContents& layer_of(const PackedMeasurement& measurement, std::string_view wanted,
                                    const std::string& place) {
  for (const PackedLayerContents& layer : measurement.layers) {
    if (layer.name == wanted) return layer;
  }
  throw NotFound("there is no layer '" + std::string(wanted) + "'" + names_of(measurement.layers) +
                 ", in " + place);
}

}  // namespace penstock::format::pack
