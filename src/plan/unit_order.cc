#include "plan/unit_order.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "plan/random.h"

namespace penstock::plan {
namespace {

// Deals the neighbours in `units` to two halves, a pair at a time, and goes on in each. `scratch`
// is as long as `units`.
void deal_halves(std::span<uint32_t> units, std::span<uint32_t> scratch, RandomStream& random) {
  const size_t count = units.size();
  if (count < 2) return;
  // The odd one goes to either half.
  const size_t half = count / 2 + (count % 2 != 0 ? random.next() >> 63 : 0);
  size_t first = 0, second = half;
  size_t paired = 0;
  if (count % 2 != 0) {
    // It stands at a random place, so that no unit is the odd one more often than others.
    paired = random.below(count / 2 + 1) * 2;
    const bool in_first = half > count / 2;
    for (size_t i = 0; i < paired; i += 2) {
      const size_t swap = random.next() >> 63;
      scratch[first++] = units[i + swap];
      scratch[second++] = units[i + 1 - swap];
    }
    scratch[in_first ? first++ : second++] = units[paired];
    ++paired;
  }
  for (size_t i = paired; i < count; i += 2) {
    const size_t swap = random.next() >> 63;
    scratch[first++] = units[i + swap];
    scratch[second++] = units[i + 1 - swap];
  }
  std::copy(scratch.begin(), scratch.end(), units.begin());
  deal_halves(units.first(half), scratch.first(half), random);
  deal_halves(units.subspan(half), scratch.subspan(half), random);
}

}  // namespace

std::vector<uint32_t> stratified_order(uint32_t count, uint64_t key) {
  std::vector<uint32_t> order(count), scratch(count);
  std::iota(order.begin(), order.end(), 0u);
  RandomStream random(key);
  deal_halves(order, scratch, random);
  return order;
}

}  // namespace penstock::plan
