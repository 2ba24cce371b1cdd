#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

// Sets for a filter's `in` lists: a look-up costs the same for three values and for a million.
// Filled once, then read by any thread.

namespace penstock::table {

/// A set of 64-bit patterns, in an open-addressed table that is at most half full.
class BitsSet {
 public:
  void insert(uint64_t bits) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    place(bits);
  }
  bool contains(uint64_t bits) const noexcept {
    if (slots_.empty()) return false;
    for (size_t at = start(bits);; at = (at + 1) & (slots_.size() - 1)) {
      if (!used_[at]) return false;
      if (slots_[at] == bits) return true;
    }
  }
  size_t size() const noexcept { return count_; }

 private:
  size_t start(uint64_t bits) const noexcept {
    return static_cast<size_t>((bits * 0x9E3779B97F4A7C15ULL) >> shift_);
  }
  void place(uint64_t bits) {
    size_t at = start(bits);
    for (; used_[at]; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == bits) return;
    }
    used_[at] = 1;
    slots_[at] = bits;
    ++count_;
  }
  void grow() {
    const std::vector<uint64_t> old_slots = std::move(slots_);
    const std::vector<uint8_t> old_used = std::move(used_);
    const size_t size = old_slots.empty() ? 16 : old_slots.size() * 2;
    slots_.assign(size, 0);
    used_.assign(size, 0);
    shift_ = 64 - __builtin_ctzll(size);
    count_ = 0;
    for (size_t i = 0; i < old_slots.size(); ++i) {
      if (old_used[i]) place(old_slots[i]);
    }
  }

  std::vector<uint64_t> slots_;
  std::vector<uint8_t> used_;
  size_t count_ = 0;
  int shift_ = 60;
};

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
using StringSet = std::unordered_set<std::string, StringHash, std::equal_to<>>;

}  // namespace penstock::table
