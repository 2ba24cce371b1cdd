#include "format/cells/stored_ids.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "base/testing/test_seed.h"
#include "codec/testing/shuffled_cells.h"

namespace penstock::format {
namespace {

/// Compares every path with plain arithmetic, for ids below `end`, one of them `odd` if it is not
/// 0.
template <typename Id, typename Out>
void check(DataType type, uint64_t end, Id odd) {
  const TestSeed seed(end ^ static_cast<uint64_t>(odd));
  std::mt19937_64 random(seed);
  for (const size_t count : codec::lengths()) {
    std::vector<Id> ids(count);
    for (Id& id : ids) id = static_cast<Id>(random() % end);
    if (odd != 0 && count != 0) ids[random() % count] = odd;
    uint64_t most = 0;
    bool bad = false;
    for (const Id id : ids) {
      bad |= std::is_signed_v<Id> && id < 0;
      bad |= static_cast<std::make_unsigned_t<Id>>(id) > std::numeric_limits<Out>::max();
      most = std::max(most, static_cast<uint64_t>(static_cast<std::make_unsigned_t<Id>>(id)));
    }
    if (bad) most = ~uint64_t{0};
    for (const bool shuffled : {false, true}) {
      const codec::Bytes plain = codec::bytes_of(ids);
      const codec::Bytes stored = shuffled ? codec::shuffle(plain, sizeof(Id)) : plain;
      for (const VectorPath path : {VectorPath::kScalar, best_vector_path()}) {
        std::vector<Out> out(count);
        EXPECT_EQ(narrow_stored_ids(type, {stored, shuffled}, count, out.data(), path), most);
        for (size_t i = 0; i < count && !bad; ++i) ASSERT_EQ(out[i], static_cast<Out>(ids[i]));
      }
    }
  }
}

template <typename Id>
void check_type(DataType type) {
  const auto end = static_cast<uint64_t>(std::numeric_limits<Id>::max());
  for (const Id odd : {Id{0}, std::numeric_limits<Id>::max(), std::numeric_limits<Id>::min(),
                       static_cast<Id>(-1)}) {
    check<Id, uint16_t>(type, std::min<uint64_t>(end, 65536), odd);
    check<Id, uint32_t>(type, std::min<uint64_t>(end, uint64_t{1} << 32), odd);
  }
}

TEST(StoredIds, EveryTypeAndPath) {
  check_type<int8_t>(DataType::kInt8);
  check_type<uint8_t>(DataType::kUInt8);
  check_type<int16_t>(DataType::kInt16);
  check_type<uint16_t>(DataType::kUInt16);
  check_type<int32_t>(DataType::kInt32);
  check_type<uint32_t>(DataType::kUInt32);
  check_type<int64_t>(DataType::kInt64);
}

}  // namespace
}  // namespace penstock::format
