#pragma once

#include <penstock/error.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/concat.h"
#include "base/utf8.h"

// A cursor over untrusted little-endian bytes. A read past the end throws `CorruptData`, which
// names the field and the offset. Copies nothing, owns nothing.

namespace penstock {

class ByteReader {
 public:
  ByteReader() = default;
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const noexcept { return offset_; }
  size_t remaining() const noexcept { return bytes_.size() - offset_; }
  bool empty() const noexcept { return remaining() == 0; }

  /// Reads one trivially copyable value. `what` names the field in the error message.
  template <typename T>
  T read(std::string_view what) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  /// The next `length` bytes, as a view.
  std::span<const std::byte> take(uint64_t length, std::string_view what) {
    if (length > remaining()) fail(length, what);
    const auto view = bytes_.subspan(offset_, static_cast<size_t>(length));
    offset_ += view.size();
    return view;
  }

  std::string_view take_string(uint64_t length, std::string_view what) {
    const auto view = take(length, what);
    return {reinterpret_cast<const char*>(view.data()), view.size()};
  }

  /// Reads a name. Throws `CorruptData` unless it is UTF-8.
  std::string_view take_name(uint64_t length, std::string_view what) {
    const std::string_view name = take_string(length, what);
    if (!is_utf8(name))
      throw CorruptData(std::string(what) + " is not UTF-8: " + std::string(name));
    return name;
  }

  void skip(uint64_t length, std::string_view what) { take(length, what); }

  /// Throws unless `count` items of at least `item_bytes` each fit in the remaining bytes. Then it
  /// is safe to reserve memory for a count from the bytes.
  void expect_items(uint64_t count, uint64_t item_bytes, std::string_view what) const {
    if (item_bytes != 0 && count > remaining() / item_bytes) fail(count * item_bytes, what);
  }

 private:
  [[noreturn]] void fail(uint64_t length, std::string_view what) const {
    throw CorruptData(concat("truncated: ", what, " needs ", length, " bytes, ", remaining(),
                             " left at offset ", offset_));
  }

  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace penstock
