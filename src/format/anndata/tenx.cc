#include "format/anndata/tenx.h"

#include <penstock/error.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "format/chunked/made_group.h"
#include "format/chunked/read_array.h"

namespace penstock::format::anndata {
namespace {

using chunked::ArrayPtr;
using chunked::GroupPtr;
using chunked::MadeGroup;
using nlohmann::json;

/// A column of a table: its name, and where it is stored.
struct NamedColumn {
  std::string name, stored;
};

/// A table of those columns that are stored, the first of which is the index.
GroupPtr table_of(const chunked::Group& stored, const std::vector<NamedColumn>& columns) {
  json order = json::array();
  std::vector<std::pair<std::string, ArrayPtr>> found;
  for (const NamedColumn& column : columns) {
    auto array = stored.array(column.stored);
    if (!array) {
      if (!found.empty()) continue;
      throw CorruptData("there is no array '" + column.stored + "', in " + stored.path());
    }
    if (!found.empty()) order.push_back(column.name);
    found.emplace_back(column.name, std::move(array));
  }
  auto table = std::make_shared<MadeGroup>(
      stored.path(),
      json{{"encoding-type", "dataframe"}, {"_index", columns[0].name}, {"column-order", order}});
  for (auto& [name, array] : found) table->add(name, std::move(array));
  return table;
}

/// Features and barcodes, as stored.
std::pair<uint64_t, uint64_t> shape_of(const chunked::Group& matrix) {
  const auto array = matrix.array("shape");
  if (!array || array->info().shape != std::vector<uint64_t>{2}) {
    throw CorruptData("a matrix of 10x has no shape of two numbers, in " + matrix.path());
  }
  if (!is_integer(array->info().type) || array->info().cell_bytes < sizeof(int32_t)) {
    throw CorruptData("the shape of a matrix is two integers of 32 or 64 bits, in " +
                      matrix.path());
  }
  const Buffer values = chunked::read_values(*array, 0, 2, 1);
  const auto length_at = [&](size_t i) {
    ByteReader reader(values.span());
    const uint32_t bytes = array->info().cell_bytes;
    reader.skip(i * bytes, "shape");
    const int64_t length =
        bytes == 4 ? int64_t{reader.read<int32_t>("shape")} : reader.read<int64_t>("shape");
    if (length < 0) throw CorruptData(concat("a shape of ", length, ", in ", matrix.path()));
    return static_cast<uint64_t>(length);
  };
  return {length_at(0), length_at(1)};
}

bool is_matrix(const chunked::Group& group) {
  for (const char* const name : {"barcodes", "data", "indices", "indptr", "shape"}) {
    if (!group.array(name)) return false;
  }
  return true;
}

std::vector<NamedColumn> columns_of(const chunked::Group& features) {
  // Of probes, the id is that of the probe.
  const bool probes = features.array("gene_id") != nullptr;
  std::vector<NamedColumn> columns = {{"name", "name"}, {"gene_ids", probes ? "gene_id" : "id"}};
  if (probes) columns.push_back({"probe_ids", "id"});
  columns.push_back({"feature_types", "feature_type"});
  for (const std::string& name : features.members()) {
    const bool taken = name == "name" || name == "id" || name == "gene_id" ||
                       name == "feature_type" || name == "_all_tag_keys" ||
                       std::any_of(columns.begin(), columns.end(),
                                   [&](const NamedColumn& made) { return made.name == name; });
    if (!taken) columns.push_back({name, name});
  }
  return columns;
}

GroupPtr as_anndata(const chunked::Group& matrix, GroupPtr var) {
  const auto [features, barcodes] = shape_of(matrix);
  auto x = std::make_shared<MadeGroup>(
      matrix.path(), json{{"encoding-type", "csr_matrix"}, {"shape", {barcodes, features}}});
  for (const char* const name : {"data", "indices", "indptr"}) x->add(name, matrix.array(name));
  auto root = std::make_shared<MadeGroup>(matrix.path(), json{{"encoding-type", "anndata"}});
  root->add("obs", table_of(matrix, {{"barcodes", "barcodes"},
                                     {"filtered_barcodes", "filtered_barcodes"}}));
  root->add("var", std::move(var));
  root->add("X", GroupPtr(std::move(x)));
  return root;
}

bool is_genome(const chunked::Group& group) { return is_matrix(group) && group.array("genes"); }

GroupPtr open_genome(const chunked::Group& matrix) {
  return as_anndata(matrix,
                    table_of(matrix, {{"gene_names", "gene_names"}, {"gene_ids", "genes"}}));
}

}  // namespace

GroupPtr open_tenx(const GroupPtr& root) {
  if (const auto matrix = root->group("matrix"); matrix && is_matrix(*matrix)) {
    const auto features = matrix->group("features");
    if (!features) throw CorruptData("a matrix of 10x has no features, in " + matrix->path());
    return as_anndata(*matrix, table_of(*features, columns_of(*features)));
  }
  // Cell Ranger 1 and 2: a group a genome.
  if (is_genome(*root)) return open_genome(*root);
  std::vector<std::string> genomes;
  for (const std::string& name : root->members()) {
    const auto group = root->group(name);
    if (group && is_genome(*group)) genomes.push_back(name);
  }
  if (genomes.empty()) return nullptr;
  if (genomes.size() == 1) return open_genome(*root->group(genomes[0]));
  std::string paths;
  for (const std::string& name : genomes) {
    paths += (paths.empty() ? "" : ", ") + root->path() + "/" + name;
  }
  throw InvalidArgument("the file has the cells of several genomes; open one of them: " + paths);
}

}  // namespace penstock::format::anndata
