#include "plan/cut/row_deal.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>

#include "base/concat.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

constexpr uint64_t kBlockRows = uint64_t{1} << 22;  // 32 MiB of ids

/// Draws the part of each row in turn.
class Dealer {
 public:
  Dealer(DealCounts counts, uint64_t seed)
      : left_(std::move(counts.counts)),
        parts_(counts.parts),
        random_(random_key(seed, 0, Purpose::kSplit)) {
    for (size_t first = 0; first < left_.size(); first += parts_) {
      const auto begin = left_.begin() + static_cast<std::ptrdiff_t>(first);
      rows_left_.push_back(
          std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(parts_), uint64_t{0}));
    }
  }

  size_t part_of_next(size_t stratum, uint64_t position) {
    if (stratum >= rows_left_.size() || rows_left_[stratum] == 0) {
      throw InvalidArgument(concat("a stratum has more rows than are dealt: stratum ", stratum,
                                   " at position ", position));
    }
    uint64_t draw = random_.below(rows_left_[stratum]--);
    uint64_t* left = left_.data() + stratum * parts_;
    while (draw >= *left) draw -= *left++;
    --*left;
    return static_cast<size_t>(left - (left_.data() + stratum * parts_));
  }

  /// Throws InvalidArgument when rows are left to be dealt.
  void check_done() const {
    const auto found =
        std::find_if(rows_left_.begin(), rows_left_.end(), [](uint64_t rows) { return rows != 0; });
    if (found == rows_left_.end()) return;
    throw InvalidArgument(concat("a stratum has fewer rows than are dealt: ", *found,
                                 " too few, stratum ", found - rows_left_.begin()));
  }

 private:
  std::vector<uint64_t> left_;  // strata x parts
  size_t parts_;
  std::vector<uint64_t> rows_left_;  // by stratum
  RandomStream random_;
};

void check(const DealCounts& counts) {
  if (counts.parts == 0 || counts.counts.size() % counts.parts != 0) {
    throw InvalidArgument(concat("counts must be strata x parts: ", counts.counts.size(),
                                 " counts, ", counts.parts, " parts"));
  }
}

}  // namespace

template <typename Stratum>
std::vector<RowSelection> deal_rows(const RowSelection& rows, std::span<const Stratum> strata,
                                    DealCounts counts, uint64_t seed) {
  check(counts);
  if (!strata.empty() && strata.size() != rows.size()) {
    throw InvalidArgument(
        concat("strata must have one entry a row: ", strata.size(), " for ", rows.size(), " rows"));
  }
  const size_t parts = counts.parts;
  Dealer dealer(std::move(counts), seed);
  std::vector<RowSelection> dealt(parts);
  std::vector<std::vector<int64_t>> ids(parts);
  std::vector<int64_t> block;
  for (uint64_t begin = 0; begin < rows.size(); begin += block.size()) {
    block.clear();
    rows.copy_positions(begin, std::min(kBlockRows, rows.size() - begin), block);
    for (size_t i = 0; i < block.size(); ++i) {
      const size_t stratum = strata.empty() ? 0 : size_t{strata[begin + i]};
      ids[dealer.part_of_next(stratum, begin + i)].push_back(block[i]);
    }
    for (size_t part = 0; part < parts; ++part) {
      dealt[part] = dealt[part] | RowSelection::from_sorted(ids[part]);
      ids[part].clear();
    }
  }
  dealer.check_done();
  return dealt;
}

template std::vector<RowSelection> deal_rows(const RowSelection&, std::span<const uint8_t>,
                                             DealCounts, uint64_t);
template std::vector<RowSelection> deal_rows(const RowSelection&, std::span<const uint16_t>,
                                             DealCounts, uint64_t);
template std::vector<RowSelection> deal_rows(const RowSelection&, std::span<const uint32_t>,
                                             DealCounts, uint64_t);

}  // namespace penstock::plan
