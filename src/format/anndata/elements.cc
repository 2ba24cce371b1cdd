#include "format/anndata/elements.h"

#include <penstock/error.h>

#include <nlohmann/json.hpp>

namespace penstock::format::anndata {

using nlohmann::json;

std::string text_attribute(const json& attributes, std::string_view name) {
  const auto found = attributes.find(std::string(name));
  return found != attributes.end() && found->is_string() ? found->get<std::string>()
                                                         : std::string();
}

bool is_set(const json& attributes, std::string_view name) {
  const auto found = attributes.find(std::string(name));
  if (found == attributes.end()) return false;
  return found->is_boolean() ? found->get<bool>() : found->is_number() && *found != 0;
}

std::string encoding_of(const json& attributes) {
  std::string encoding = text_attribute(attributes, "encoding-type");
  if (!encoding.empty()) return encoding;
  const std::string sparse = text_attribute(attributes, "h5sparse_format");
  if (!sparse.empty()) return sparse + "_matrix";
  if (attributes.contains("_index")) return "dataframe";
  return {};
}

void expect_known_encoding(const json& attributes, const std::string& path) {
  // Source: anndata 0.13, _io/specs/methods.py; annbatch 0.3.1, io.py.
  constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
      {"anndata", "0.1.0"},
      {"MuData", "0.1.0"},
      {"annbatch-preshuffled", "0.1.0"},
      {"raw", "0.1.0"},
      {"dataframe", "0.1.0"},
      {"dataframe", "0.2.0"},
      {"csr_matrix", "0.1.0"},
      {"csc_matrix", "0.1.0"},
      {"array", "0.2.0"},
      {"string-array", "0.2.0"},
      {"rec-array", "0.2.0"},
      {"categorical", "0.2.0"},
      {"nullable-integer", "0.1.0"},
      {"nullable-boolean", "0.1.0"},
      {"dict", "0.1.0"},
      {"nullable-string-array", "0.1.0"},
      {"null", "0.1.0"},
      {"awkward-array", "0.1.0"},
      {"string", "0.2.0"},
      {"numeric-scalar", "0.2.0"}};
  const std::string type = text_attribute(attributes, "encoding-type");
  const std::string version = text_attribute(attributes, "encoding-version");
  if (type.empty()) return;
  for (const auto& [known_type, known_version] : kKnown) {
    if (type == known_type && (version.empty() || version == known_version)) return;
  }
  const bool annbatch = type.starts_with("annbatch");
  throw Unsupported("encoding-type '" + type + "' of version '" + version +
                    "' is not known; write it again with " +
                    (annbatch ? "annbatch 0.3" : "anndata 0.13 or before") + ", in " + path);
}

std::pair<uint64_t, uint64_t> sparse_shape(const json& attributes, const std::string& path) {
  for (const char* const name : {"shape", "h5sparse_shape"}) {
    const auto found = attributes.find(name);
    if (found == attributes.end()) continue;
    const auto is_length = [](const json& value) {
      return value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
    };
    if (found->is_array() && found->size() == 2 && is_length((*found)[0]) &&
        is_length((*found)[1])) {
      return {(*found)[0].get<uint64_t>(), (*found)[1].get<uint64_t>()};
    }
    throw CorruptData(std::string(name) + " must be two numbers, got " + found->dump() + ", in " +
                      path);
  }
  throw CorruptData("a sparse matrix has no attribute shape, in " + path);
}

std::vector<std::string> column_order(const chunked::Group& group) {
  const auto found = group.attributes().find("column-order");
  std::vector<std::string> names;
  if (found == group.attributes().end() || !found->is_array()) {
    throw CorruptData("a table has no attribute column-order, in " + group.path());
  }
  for (const auto& name : *found) {
    // A table without columns has an empty array of numbers here.
    if (!name.is_string()) {
      throw CorruptData("column-order must be names, got " + name.dump() + ", in " + group.path());
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

bool is_anndata(const chunked::Group& group) {
  const std::string encoding = text_attribute(group.attributes(), "encoding-type");
  if (!encoding.empty()) return encoding == "anndata";
  const auto has = [&](const char* name) {
    return group.group(name) != nullptr || group.array(name) != nullptr;
  };
  return has("obs") && has("var");
}

bool is_collection(const chunked::Group& group) {
  return text_attribute(group.attributes(), "encoding-type") == "annbatch-preshuffled";
}

bool is_mudata(const chunked::Group& group) {
  return text_attribute(group.attributes(), "encoding-type") == "MuData";
}

}  // namespace penstock::format::anndata
