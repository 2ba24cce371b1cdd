#include "plan/order/unit_order.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "plan/random.h"

namespace penstock::plan {
namespace {

// Deals the neighbours in `units` to two halves, a pair at a time, then recurses into each half.
// `scratch` is as long as `units`.
void deal_halves(std::span<uint32_t> units, std::span<uint32_t> scratch, RandomStream& random) {
  const size_t count = units.size();
  if (count < 2) return;
  // With an odd count, a random unit goes to either half without a partner. It must be random: if
  // it were always the last unit, say, units would not be equally likely at every place.
  const bool odd = count % 2 != 0;
  const size_t single = odd ? random.below(count) : count;
  const size_t half = count / 2 + (odd ? random.next() >> 63 : 0);
  size_t first = 0, second = half;
  const auto deal = [&](size_t a, size_t b) {
    if (random.next() >> 63) std::swap(a, b);
    scratch[first++] = units[a];
    scratch[second++] = units[b];
  };
  size_t i = 0;
  for (; i + 1 < single; i += 2) deal(i, i + 1);
  if (odd) {
    if (i != single) {  // its neighbours are each other's partners
      deal(i, i + 2);
      i += 3;
    } else {
      ++i;
    }
    for (; i < count; i += 2) deal(i, i + 1);
    scratch[half > count / 2 ? first : second] = units[single];
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
