#include "format/joined/gene_match.h"

#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/concat.h"
#include "base/threads/parallel.h"
#include "table/column_operations.h"

namespace penstock::format {
namespace {

/// Columns of var that hold names, in order of preference, as in Python's gene_names.py.
constexpr std::array<std::string_view, 7> kNameColumns = {
    "var_names", "var_id", "feature_id", "gene_id", "feature_name", "gene_name", "index"};
constexpr size_t kNamedInErrors = 5;

bool has_column(const DataFrame& table, std::string_view name) {
  const auto& columns = table.columns();
  return std::any_of(columns.begin(), columns.end(),
                     [name](const ColumnInfo& column) { return column.name == name; });
}

std::string listed_columns(const DataFrame& table) {
  std::string text;
  for (const ColumnInfo& column : table.columns()) {
    text += (text.empty() ? "" : ", ") + column.name;
  }
  return text;
}

/// Names of one experiment's genes, in the order of var.
struct Names {
  std::vector<std::string> names;
  std::unordered_map<std::string_view, int64_t> joinid_of;  ///< views of `names`

  bool has(const std::string& name) const { return joinid_of.contains(name); }
};

Names read_names(const NamedTable& var, const std::string& column) {
  ReadOptions options;
  options.columns = {column, "soma_joinid"};
  Table table = var.table.read(options);
  Column& texts = table.columns[0];
  if (!is_string(texts.type)) {
    throw InvalidArgument(concat("var column '", column, "' of the experiment '", var.name,
                                 "' must hold gene names (strings), but it holds ",
                                 name_of(texts.type), "; choose another var_column"));
  }
  table::decode_strings(texts);
  const auto joinids = table.columns[1].values<int64_t>();
  Names found;
  found.names.reserve(table.row_count);  // so that the views stay valid
  for (uint64_t row = 0; row < table.row_count; ++row) {
    if (!texts.is_valid(row)) continue;
    found.names.emplace_back(texts.string_at(row));
    if (!found.joinid_of.emplace(found.names.back(), joinids[row]).second) {
      throw InvalidArgument(concat("var column '", column, "' of the experiment '", var.name,
                                   "' names a gene twice, '", found.names.back(),
                                   "': choose a var_column whose names are unique"));
    }
  }
  return found;
}

std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamedInErrors); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  if (names.size() > kNamedInErrors) text += concat(", … (", names.size(), ")");
  return text.empty() ? "none" : text;
}

/// Throws if an experiment shares no gene with any other.
void check_in_common(const std::vector<NamedTable>& var, const std::vector<Names>& all,
                     const std::string& column) {
  for (size_t i = 0; i < all.size(); ++i) {
    const bool shares =
        std::any_of(all[i].names.begin(), all[i].names.end(), [&](const auto& name) {
          for (size_t other = 0; other < all.size(); ++other) {
            if (other != i && all[other].has(name)) return true;
          }
          return false;
        });
    if (shares) continue;
    const size_t other = i == 0 ? 1 : 0;
    throw InvalidArgument(concat(
        "the experiment '", var[i].name, "' has no gene in common with the others by var column '",
        column, "': it has ", some_of(all[i].names), ", '", var[other].name, "' has ",
        some_of(all[other].names), "; choose another var_column, or list genes"));
  }
}

std::vector<std::string> inner_names(const std::vector<NamedTable>& var,
                                     const std::vector<Names>& all, const std::string& column) {
  std::vector<std::string> chosen;
  for (const std::string& name : all.front().names) {
    if (std::all_of(all.begin(), all.end(), [&](const Names& own) { return own.has(name); })) {
      chosen.push_back(name);
    }
  }
  if (!chosen.empty() || all.size() == 1) return chosen;
  check_in_common(var, all, column);
  throw InvalidArgument(concat("no gene is in all ", all.size(), " experiments by var column '",
                               column, "'; use JoinGenes::kOuter or kListed"));
}

std::vector<std::string> outer_names(const std::vector<NamedTable>& var,
                                     const std::vector<Names>& all, const std::string& column) {
  if (all.size() > 1) check_in_common(var, all, column);
  std::vector<std::string> chosen;
  std::unordered_set<std::string_view> seen;
  for (const Names& own : all) {
    for (const std::string& name : own.names) {
      if (seen.insert(name).second) chosen.push_back(name);
    }
  }
  return chosen;
}

void check_listed(const std::vector<NamedTable>& var, const std::vector<Names>& all,
                  const std::string& column, const std::vector<std::string>& listed) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : listed) {
    if (!seen.insert(name).second) {
      throw InvalidArgument(concat("gene_names must be unique, got '", name, "' twice"));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto has = [&](const std::string& name) { return all[i].has(name); };
    if (std::any_of(listed.begin(), listed.end(), has)) continue;
    throw InvalidArgument(concat("the experiment '", var[i].name, "' has none of the ",
                                 listed.size(), " gene_names: var column '", column, "' has ",
                                 some_of(all[i].names), ", gene_names has ", some_of(listed),
                                 "; choose another var_column, or leave the experiment out"));
  }
}

GeneMatch::Part places_in(const Names& own, const std::vector<std::string>& chosen) {
  std::vector<std::pair<int64_t, uint32_t>> found;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto gene = own.joinid_of.find(chosen[i]);
    if (gene != own.joinid_of.end()) found.emplace_back(gene->second, static_cast<uint32_t>(i));
  }
  std::sort(found.begin(), found.end());
  GeneMatch::Part part;
  for (const auto& [joinid, place] : found) {
    part.joinids.push_back(joinid);
    part.places.push_back(place);
  }
  return part;
}

}  // namespace

std::string gene_name_column(const std::vector<NamedTable>& var, const std::string& wanted) {
  const auto all_have = [&](std::string_view name) {
    return std::all_of(var.begin(), var.end(),
                       [name](const NamedTable& part) { return has_column(part.table, name); });
  };
  std::string there;
  for (const NamedTable& part : var) {
    there += concat(there.empty() ? "" : "; ", part.name, ": ", listed_columns(part.table));
  }
  if (!wanted.empty()) {
    if (all_have(wanted)) return wanted;
    throw NotFound(concat("var_column must be in var of each experiment, got '", wanted,
                          "'; there are ", there));
  }
  for (const std::string_view name : kNameColumns) {
    if (all_have(name)) return std::string(name);
  }
  throw NotFound(
      concat("no usual column of gene names is in var of each experiment; name one as "
             "var_column; there are ",
             there));
}

GeneMatch match_genes(const std::vector<NamedTable>& var, const std::string& column,
                      const JoinOptions& options, unsigned threads) {
  std::vector<Names> all(var.size());
  parallel_for(var.size(), threads, [&](size_t i) { all[i] = read_names(var[i], column); });
  GeneMatch match;
  if (options.genes == JoinGenes::kListed) {
    check_listed(var, all, column, options.gene_names);
    match.names = options.gene_names;
  } else if (options.genes == JoinGenes::kInner) {
    match.names = inner_names(var, all, column);
  } else {
    match.names = outer_names(var, all, column);
  }
  for (const Names& own : all) match.parts.push_back(places_in(own, match.names));
  return match;
}

}  // namespace penstock::format
