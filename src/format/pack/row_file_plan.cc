#include "format/pack/row_file_plan.h"

#include <algorithm>

namespace penstock::format::pack {
namespace {

/// Returns names that sort in the order of rows.
std::string file_name(int64_t begin, int64_t end) {
  const auto digits = [](int64_t row) {
    std::string text = std::to_string(row);
    return std::string(12 - std::min<size_t>(12, text.size()), '0') + text;
  };
  return digits(begin) + "-" + digits(end) + ".rows";
}

/// Positions at which files end, ascending; the last is the number of rows.
std::vector<uint64_t> file_ends(const MatrixSource& source, const RowSelection& rows,
                                uint64_t rows_per_file) {
  std::vector<uint64_t> ends;
  uint64_t begin = 0;
  // Whatever the memory budget, so that packing resumes with another.
  if (source.info().stored_by_columns) {
    while (begin < rows.size()) {
      begin += std::min(rows_per_file, rows.size() - begin);
      ends.push_back(begin);
    }
    return ends;
  }
  uint64_t end = 0;
  for (const plan::FetchUnit& unit : source.units()) {
    end = rows.rank(unit.row_end);
    if (end - begin < rows_per_file) continue;
    ends.push_back(end);
    begin = end;
  }
  if (end != begin) ends.push_back(end);
  return ends;
}

}  // namespace

std::vector<RowFilePlan> plan_row_files(const MatrixSource& source, const RowSelection& rows,
                                        const RowFileFacts& facts, uint64_t rows_per_file) {
  std::vector<RowFilePlan> files;
  uint64_t first = 0;
  for (const uint64_t end : file_ends(source, rows, std::max<uint64_t>(1, rows_per_file))) {
    RowFilePlan file{{}, facts, first, end};
    file.facts.row_begin = rows.at(first);
    file.facts.row_end = rows.at(end - 1) + 1;
    file.name = file_name(file.facts.row_begin, file.facts.row_end);
    files.push_back(std::move(file));
    first = end;
  }
  return files;
}

}  // namespace penstock::format::pack
