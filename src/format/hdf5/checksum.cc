#include "format/hdf5/checksum.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

namespace penstock::format::hdf5 {
namespace {

constexpr size_t kStep = 12;

struct State {
  uint32_t a, b, c;

  void mix() noexcept {
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }

  void finish() noexcept {
    c ^= b, c -= std::rotl(b, 14);
    a ^= c, a -= std::rotl(c, 11);
    b ^= a, b -= std::rotl(a, 25);
    c ^= b, c -= std::rotl(b, 16);
    a ^= c, a -= std::rotl(c, 4);
    b ^= a, b -= std::rotl(a, 14);
    c ^= b, c -= std::rotl(b, 24);
  }

  void add(const std::array<uint32_t, 3>& words) noexcept {
    a += words[0];
    b += words[1];
    c += words[2];
  }
};

std::atomic<int> ignoring{0};

}  // namespace

IgnoreChecksums::IgnoreChecksums() noexcept { ++ignoring; }
IgnoreChecksums::~IgnoreChecksums() { --ignoring; }
bool IgnoreChecksums::active() noexcept { return ignoring != 0; }

uint32_t metadata_checksum(std::span<const std::byte> bytes) noexcept {
  const auto start = 0xdeadbeef + static_cast<uint32_t>(bytes.size());
  State state{start, start, start};
  if (bytes.empty()) return state.c;
  const auto words_of = [](std::span<const std::byte> from) {
    std::array<uint32_t, 3> words{};
    std::memcpy(words.data(), from.data(), std::min(from.size(), kStep));
    return words;
  };
  // The last 1 to 12 bytes are finished, not mixed.
  while (bytes.size() > kStep) {
    state.add(words_of(bytes));
    state.mix();
    bytes = bytes.subspan(kStep);
  }
  state.add(words_of(bytes));
  state.finish();
  return state.c;
}

}  // namespace penstock::format::hdf5
