#include "pipeline/column_moments.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/concat.h"

namespace penstock::pipeline {
namespace {

/// Small enough for the second-level cache, and for ranges for many threads.
constexpr uint32_t kRangeColumns = 4096;

/// Begins the bytes of sums().
struct SumsHeader {
  uint64_t columns = 0, group_count = 0, has_upper = 0;
};

template <typename T>
void append_values(std::string& bytes, const T* values, size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

/// Reads what append_values() wrote.
class SumsReader {
 public:
  explicit SumsReader(std::string_view bytes) : left_(bytes) {}
  template <typename T>
  T next() {
    if (left_.size() < sizeof(T)) throw InvalidArgument("sums of columns end too early");
    T value;
    std::memcpy(&value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return value;
  }
  bool at_end() const noexcept { return left_.empty(); }

 private:
  std::string_view left_;
};

}  // namespace

ColumnMoments::ColumnMoments(uint32_t columns, uint32_t group_count, std::vector<double> upper)
    : columns_(columns),
      group_count_(group_count),
      upper_(std::move(upper)),
      integers_(size_t{columns} * group_count),
      clipped_(upper_.empty() ? 0 : size_t{columns} * group_count) {
  for (uint32_t begin = 0; begin < columns; begin += kRangeColumns) {
    Range& range = ranges_.emplace_back();
    range.begin = begin;
    range.end = std::min(columns, begin + kRangeColumns);
    range.fractions.resize(group_count);
    range.earlier.resize(group_count);
  }
}

void ColumnMoments::add(size_t range, const Batch& batch, uint32_t begin, uint32_t end,
                        std::span<const uint32_t> groups) {
  if (batch.dtype() == DataType::kFloat32) {
    add_values<float>(ranges_[range], batch, begin, end, groups);
  } else {
    add_values<double>(ranges_[range], batch, begin, end, groups);
  }
}

template <typename T>
void ColumnMoments::add_values(Range& range, const Batch& batch, uint32_t begin, uint32_t row_end,
                               std::span<const uint32_t> groups) {
  const Batch::Csr csr = batch.csr();
  const auto* const values = reinterpret_cast<const T*>(csr.data);
  const bool whole = ranges_.size() == 1;
  for (uint32_t row = begin; row < row_end; ++row) {
    const int32_t* const end = csr.indices.data() + csr.indptr[row + 1];
    const int32_t* at = csr.indices.data() + csr.indptr[row];
    if (!whole) at = std::lower_bound(at, end, static_cast<int32_t>(range.begin));
    const uint32_t group = groups.empty() ? 0 : groups[row];
    const size_t first = size_t{group} * columns_;
    for (; at != end && static_cast<uint32_t>(*at) < range.end; ++at) {
      const auto column = static_cast<uint32_t>(*at);
      const auto value = static_cast<double>(values[at - csr.indices.data()]);
      if (!upper_.empty() && value > upper_[first + column]) {
        ++clipped_[first + column];
      } else if (!integers_[first + column].add(value)) {
        add_fraction(range, group, column, value);
      }
    }
  }
}

void ColumnMoments::add_fraction(Range& range, uint32_t group, uint32_t column, double value) {
  auto& fractions = range.fractions[group];
  if (fractions == nullptr) {
    fractions = std::make_unique<kernel::RunningMoments[]>(range.size());
  }
  fractions[column - range.begin].add(value);
}

kernel::RunningMoments ColumnMoments::Range::fraction(uint32_t group, uint32_t column) const {
  kernel::RunningMoments all;
  if (earlier[group] != nullptr) all = earlier[group][column - begin];
  if (fractions[group] != nullptr) all.merge(fractions[group][column - begin]);
  return all;
}

void ColumnMoments::end_chunk() {
  for (Range& range : ranges_) {
    for (uint32_t group = 0; group < group_count_; ++group) {
      auto& chunk = range.fractions[group];
      auto& before = range.earlier[group];
      if (chunk == nullptr) continue;
      if (before == nullptr) {
        before = std::move(chunk);
        continue;
      }
      for (uint32_t i = 0; i < range.size(); ++i) before[i].merge(chunk[i]);
      chunk.reset();
    }
  }
}

// The header; integers; clipped if there are limits; then for each range and group whether there
// are fractions, and those of the range's columns. Numbers are those of this machine.
std::string ColumnMoments::sums() const {
  std::string bytes;
  const SumsHeader header{columns_, group_count_, clipped_.empty() ? 0U : 1U};
  append_values(bytes, &header, 1);
  append_values(bytes, integers_.data(), integers_.size());
  append_values(bytes, clipped_.data(), clipped_.size());
  for (const Range& range : ranges_) {
    for (uint32_t group = 0; group < group_count_; ++group) {
      const bool some = range.fractions[group] != nullptr || range.earlier[group] != nullptr;
      bytes.push_back(some ? '\1' : '\0');
      if (!some) continue;
      for (uint32_t column = range.begin; column < range.end; ++column) {
        const kernel::RunningMoments fraction = range.fraction(group, column);
        append_values(bytes, &fraction, 1);
      }
    }
  }
  return bytes;
}

void ColumnMoments::add_sums(std::string_view sums, std::span<const uint32_t> groups) {
  SumsReader reader(sums);
  const auto header = reader.next<SumsHeader>();
  if (header.columns != columns_ || header.group_count != groups.size() ||
      (header.has_upper != 0) == upper_.empty()) {
    throw InvalidArgument(concat("sums of ", header.columns, " columns and ", header.group_count,
                                 " groups do not fit ", columns_, " columns and ", groups.size(),
                                 " groups, or only one of them has limits"));
  }
  for (const uint32_t group : groups) {
    if (group < group_count_) continue;
    throw InvalidArgument(
        concat("a group must be less than group_count: ", group, " of ", group_count_));
  }
  for (const uint32_t group : groups) {
    for (size_t i = size_t{group} * columns_; i < size_t{group + 1} * columns_; ++i) {
      integers_[i].merge(reader.next<kernel::IntegerSums>());
    }
  }
  for (const uint32_t group : groups) {
    if (clipped_.empty()) break;
    for (size_t i = size_t{group} * columns_; i < size_t{group + 1} * columns_; ++i) {
      clipped_[i] += reader.next<int64_t>();
    }
  }
  for (Range& range : ranges_) {
    for (const uint32_t group : groups) {
      if (reader.next<char>() == '\0') continue;
      auto& earlier = range.earlier[group];
      if (earlier == nullptr) earlier = std::make_unique<kernel::RunningMoments[]>(range.size());
      for (uint32_t i = 0; i < range.size(); ++i) {
        earlier[i].merge(reader.next<kernel::RunningMoments>());
      }
    }
  }
  if (!reader.at_end()) throw InvalidArgument("sums of columns are longer than they say");
}

Moments ColumnMoments::moments(std::span<const uint64_t> group_sizes) const {
  Moments result;
  const size_t size = integers_.size();
  result.nonzeros.reserve(size);
  result.total.reserve(size);
  result.squared_deviation.reserve(size);
  for (uint32_t group = 0; group < group_count_; ++group) {
    for (const Range& range : ranges_) {
      for (uint32_t column = range.begin; column < range.end; ++column) {
        const size_t i = size_t{group} * columns_ + column;
        const kernel::RunningMoments fractions = range.fraction(group, column);
        const int64_t clipped = clipped_.empty() ? 0 : clipped_[i];
        const double upper = clipped == 0 ? 0 : upper_[i];
        const auto rows = static_cast<int64_t>(group_sizes[group]);
        auto all = kernel::moments_of(integers_[i], rows - clipped - fractions.count);
        all.merge(fractions);
        all.merge(kernel::constant_moments(clipped, upper));
        result.nonzeros.push_back(integers_[i].count + (upper != 0 ? clipped : 0) +
                                  fractions.count);
        result.total.push_back(static_cast<double>(integers_[i].sum) +
                               fractions.mean * static_cast<double>(fractions.count) +
                               upper * static_cast<double>(clipped));
        result.squared_deviation.push_back(all.squared_deviation);
      }
    }
  }
  return result;
}

}  // namespace penstock::pipeline
