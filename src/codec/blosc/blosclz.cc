#include "codec/blosc/blosclz.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace penstock::codec {
namespace {

constexpr size_t kShortDistances = 8192;
constexpr uint32_t kLongDistance = 31;  ///< upper bits of a distance that may be a long one
constexpr size_t kLongLength = 7;

/// Copies `length` bytes from `distance` bytes before `to`. Both may overlap, which repeats bytes.
/// `room` is the number of bytes that may be written.
void copy_match(std::byte* to, size_t distance, size_t length, size_t room) noexcept {
  const std::byte* from = to - distance;
  if (distance >= length) {
    std::memcpy(to, from, length);
  } else if (distance == 1) {
    std::memset(to, std::to_integer<int>(*from), length);
  } else if (distance >= 8 && room >= length + 8) {
    for (size_t at = 0; at < length; at += 8) std::memcpy(to + at, from + at, 8);
  } else {
    for (size_t at = 0; at < length; ++at) to[at] = from[at];
  }
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> in, std::span<std::byte> out) noexcept : in_(in), out_(out) {}

  bool run() noexcept {
    uint32_t command = take() & 31U;
    for (;;) {
      if (!(command < 32 ? copy_literals(command + 1) : copy_back(command))) return false;
      if (at_ == in_.size()) return done_ == out_.size();
      command = take();
    }
  }

 private:
  bool copy_literals(size_t length) noexcept {
    if (length > in_.size() - at_ || length > out_.size() - done_) return false;
    std::memcpy(out_.data() + done_, in_.data() + at_, length);
    at_ += length;
    done_ += length;
    return true;
  }

  bool copy_back(uint32_t command) noexcept {
    size_t length = command >> 5;
    if (length == kLongLength) {
      uint32_t more = 255;
      while (more == 255) {
        if (at_ == in_.size()) return false;
        more = take();
        length += more;
      }
    }
    length += 2;
    if (at_ == in_.size()) return false;
    const uint32_t low = take();
    const uint32_t high = command & 31U;
    size_t distance = high * 256 + low + 1;
    if (high == kLongDistance && low == 255) {
      if (in_.size() - at_ < 2) return false;
      distance = take() * size_t{256};
      distance += take() + kShortDistances;
    }
    const size_t room = out_.size() - done_;
    if (distance > done_ || length > room) return false;
    copy_match(out_.data() + done_, distance, length, room);
    done_ += length;
    return true;
  }

  uint32_t take() noexcept { return std::to_integer<uint32_t>(in_[at_++]); }

  std::span<const std::byte> in_;
  std::span<std::byte> out_;
  size_t at_ = 0;
  size_t done_ = 0;
};

}  // namespace

bool blosclz_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  return in.empty() ? out.empty() : Decoder(in, out).run();
}

}  // namespace penstock::codec
