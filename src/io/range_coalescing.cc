#include "io/range_coalescing.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace penstock::io {
namespace {

// Whether to read `next` together with `read`, which must not begin later.
bool joins(const ByteRange& read, const ByteRange& next, const CoalescingOptions& options) {
  const uint64_t end = std::max(read.end(), next.end());
  if (next.offset < read.end()) return true;  // overlapping bytes are never read twice
  if (next.offset - read.end() > options.max_gap_bytes) return false;
  return end - read.offset <= options.max_read_bytes;
}

// The longest gap to merge: all gaps up to it together stay within the share of waste.
uint64_t affordable_gap(std::span<const ByteRange> wanted, std::span<const size_t> order,
                        const CoalescingOptions& options) {
  std::vector<uint64_t> gaps;
  double bytes = 0;
  uint64_t end = order.empty() ? 0 : wanted[order[0]].offset;
  for (const size_t index : order) {
    const ByteRange& range = wanted[index];
    if (range.offset > end && range.offset - end <= options.max_gap_bytes) {
      gaps.push_back(range.offset - end);
    }
    if (range.end() > end) bytes += static_cast<double>(range.end() - std::max(end, range.offset));
    end = std::max(end, range.end());
  }
  std::sort(gaps.begin(), gaps.end());
  double waste = 0;
  uint64_t longest = std::min(options.max_gap_bytes, options.always_gap_bytes);
  for (size_t i = 0; i < gaps.size();) {
    size_t same = i;  // gaps of one length are all merged, or none
    while (same < gaps.size() && gaps[same] == gaps[i]) ++same;
    waste += static_cast<double>(gaps[i]) * static_cast<double>(same - i);
    if (gaps[i] > longest && waste > bytes * options.max_waste_share) break;
    longest = std::max(longest, gaps[i]);
    i = same;
  }
  return longest;
}

}  // namespace

CoalescedReads coalesce(std::span<const ByteRange> wanted, const CoalescingOptions& given) {
  CoalescedReads result;
  result.pieces.resize(wanted.size());
  std::vector<size_t> order;
  order.reserve(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    checked_add(wanted[i].offset, wanted[i].length, "byte range");
    if (wanted[i].length != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return wanted[a].offset < wanted[b].offset; });

  CoalescingOptions options = given;
  if (given.max_waste_share < 1) options.max_gap_bytes = affordable_gap(wanted, order, given);
  uint64_t wanted_end = 0;
  for (const size_t index : order) {
    const ByteRange& range = wanted[index];
    if (result.reads.empty() || !joins(result.reads.back(), range, options)) {
      result.reads.push_back(range);
    } else {
      ByteRange& read = result.reads.back();
      read.length = std::max(read.end(), range.end()) - read.offset;
    }
    result.pieces[index] = {result.reads.size() - 1, range.offset - result.reads.back().offset};
    const uint64_t begin = std::max(range.offset, wanted_end);
    if (range.end() > begin) {
      result.wanted_bytes += range.end() - begin;
      wanted_end = range.end();
    }
  }
  for (const ByteRange& read : result.reads) result.read_bytes += read.length;
  return result;
}

}  // namespace penstock::io
