#include "format/cells/stored_ids.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace penstock::format {
namespace {

/// Reads id i of plain cells.
template <typename Id>
struct PlainIds {
  const std::byte* ids;
  size_t count;
  Id operator()(size_t i) const noexcept {
    Id id;
    std::memcpy(&id, ids + i * sizeof(Id), sizeof(Id));
    return id;
  }
};

/// Reads id i of byte planes, low byte first.
template <typename Id>
struct PlaneIds {
  const std::byte* ids;
  size_t count;
  Id operator()(size_t i) const noexcept {
    Id id = 0;
    for (size_t k = 0; k < sizeof(Id); ++k) {
      id = static_cast<Id>(
          id | (static_cast<Id>(std::to_integer<uint8_t>(ids[k * count + i])) << (8 * k)));
    }
    return id;
  }
};

// Compilers turn this loop into vector code: it has no branches and calls nothing.
template <typename Read, typename Out>
[[gnu::always_inline]] inline uint64_t narrow_loop(Read read, Out* out) noexcept {
  using Id = decltype(read(0));
  Out most = 0;
  Id high = 0;
  for (size_t i = 0; i < read.count; ++i) {
    const Id id = read(i);
    const auto low = static_cast<Out>(id);
    if constexpr (sizeof(Id) > sizeof(Out)) high |= static_cast<Id>(id >> (8 * sizeof(Out)));
    most = std::max(most, low);
    out[i] = low;
  }
  return high == 0 ? uint64_t{most} : ~uint64_t{0};
}

#if PENSTOCK_X86_PATHS
template <typename Read, typename Out>
PENSTOCK_TARGET_AVX2 uint64_t narrow_avx2(Read read, Out* out) noexcept {
  return narrow_loop(read, out);
}
#endif

template <typename Read, typename Out>
uint64_t narrow_with(Read read, Out* out, VectorPath path) noexcept {
#if PENSTOCK_X86_PATHS
  if (path == VectorPath::kAvx2) return narrow_avx2(read, out);
#endif
  static_cast<void>(path);
  return narrow_loop(read, out);
}

// A negative id of a type that is no wider than `Out` would look like a small one otherwise.
template <typename Id, typename Out>
uint64_t narrow_of(const codec::CellBytes& ids, size_t count, bool is_signed, Out* out,
                   VectorPath path) noexcept {
  const uint64_t most = ids.shuffled
                            ? narrow_with(PlaneIds<Id>{ids.bytes.data(), count}, out, path)
                            : narrow_with(PlainIds<Id>{ids.bytes.data(), count}, out, path);
  constexpr Id kNegative = static_cast<Id>(Id{1} << (8 * sizeof(Id) - 1));
  if (is_signed && sizeof(Id) <= sizeof(Out) && most >= uint64_t{kNegative}) return ~uint64_t{0};
  return most;
}

template <typename Out>
uint64_t narrow(DataType type, const codec::CellBytes& ids, size_t count, Out* out,
                VectorPath path) noexcept {
  switch (type) {
    case DataType::kInt8:
      return narrow_of<uint8_t>(ids, count, true, out, path);
    case DataType::kUInt8:
      return narrow_of<uint8_t>(ids, count, false, out, path);
    case DataType::kInt16:
      return narrow_of<uint16_t>(ids, count, true, out, path);
    case DataType::kUInt16:
      return narrow_of<uint16_t>(ids, count, false, out, path);
    case DataType::kInt32:
      return narrow_of<uint32_t>(ids, count, true, out, path);
    case DataType::kUInt32:
      return narrow_of<uint32_t>(ids, count, false, out, path);
    case DataType::kInt64:
    case DataType::kUInt64:
      return narrow_of<uint64_t>(ids, count, true, out, path);
    default:
      return ~uint64_t{0};
  }
}

}  // namespace

uint64_t narrow_stored_ids(DataType type, const codec::CellBytes& ids, size_t count, uint16_t* out,
                           VectorPath path) noexcept {
  return narrow(type, ids, count, out, path);
}

uint64_t narrow_stored_ids(DataType type, const codec::CellBytes& ids, size_t count, uint32_t* out,
                           VectorPath path) noexcept {
  return narrow(type, ids, count, out, path);
}

}  // namespace penstock::format
