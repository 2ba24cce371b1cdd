#include "io/http/index_manifest.h"

#include <penstock/error.h>

#include <nlohmann/json.hpp>

#include "io/store.h"

namespace penstock::io {
std::vector<RemoteObject> parse_index(std::string_view json, const std::string& folder) {
  const std::string place = join(folder, kIndexName);
  const auto index = nlohmann::json::parse(json, nullptr, false);
  if (index.is_discarded() || !index.is_object() || !index.contains("format") ||
      index["format"] != "penstock-index") {
    throw CorruptData("not an index made by `penstock index`, " + place);
  }
  const auto version = index.find("version");
  if (version == index.end() || !version->is_number_integer()) {
    throw CorruptData("the index has no version, " + place);
  }
  if (*version != 1) {
    throw Unsupported("the index has version " + version->dump() + ", read is 1, " + place);
  }
  const auto files = index.find("files");
  if (files == index.end() || !files->is_object()) {
    throw CorruptData("the index has no files, " + place);
  }
  std::vector<RemoteObject> objects;
  objects.reserve(files->size());
  for (const auto& [path, size] : files->items()) {
    if (!is_plain_path(path) || !size.is_number_unsigned()) {
      throw CorruptData("a file of the index is no relative path and size, " + place);
    }
    if (size.get<uint64_t>() > INT64_MAX) {
      throw CorruptData("no file has the size " + size.dump() + " that the index gives to " + path +
                        ", " + place);
    }
    objects.push_back({join(folder, path), size.get<uint64_t>(), ""});
  }
  return objects;
}

}  // namespace penstock::io
