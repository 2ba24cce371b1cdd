#include "base/types/visit_type.h"

#include <gtest/gtest.h>

#include "base/types/visit_comparison.h"

namespace penstock {
namespace {

constexpr auto kSize = [](auto identity) { return sizeof(typename decltype(identity)::type); };

TEST(VisitType, NumbersHaveTheSizeOfTheirCells) {
  for (uint8_t code = 0; code <= kLastDataType; ++code) {
    const auto type = static_cast<DataType>(code);
    const bool whole = is_integer(type) || type == DataType::kBool;
    if (whole) {
      EXPECT_EQ(visit_integer(type, kSize), size_of(type)) << name_of(type);
    } else {
      EXPECT_THROW(visit_integer(type, kSize), Internal) << name_of(type);
    }
    if (whole || is_floating(type)) {
      EXPECT_EQ(visit_number(type, kSize), size_of(type)) << name_of(type);
    } else {
      EXPECT_THROW(visit_number(type, kSize), Unsupported) << name_of(type);
    }
    const bool is_time_point = is_datetime(type) || is_time(type);
    EXPECT_EQ(stored_type(type), is_time_point ? DataType::kInt64 : type) << name_of(type);
  }
}

TEST(VisitType, SignsAndFractionsAreKept) {
  const auto halved = [](auto identity) {
    using T = typename decltype(identity)::type;
    return static_cast<double>(static_cast<T>(static_cast<T>(-3) / 2));
  };
  EXPECT_EQ(visit_number(DataType::kInt8, halved), -1);
  EXPECT_EQ(visit_number(DataType::kUInt8, halved), 126);
  EXPECT_EQ(visit_number(DataType::kInt64, halved), -1);
  EXPECT_EQ(visit_number(DataType::kFloat32, halved), -1.5);
  EXPECT_EQ(visit_number(DataType::kFloat64, halved), -1.5);
}

TEST(VisitType, TheMessageNamesWhatIsNoNumber) {
  try {
    visit_number(DataType::kBlob, kSize, "coordinates");
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "coordinates of type bytes are not numbers");
  }
}

enum class Op { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual, kIn };

TEST(VisitComparison, ComparesAsItsName) {
  const auto row = [](Op op) {
    return visit_comparison(op, [](auto compare) {
      return (compare(1, 2) ? 4 : 0) + (compare(2, 2) ? 2 : 0) + (compare(3, 2) ? 1 : 0);
    });
  };
  EXPECT_EQ(row(Op::kLess), 4);
  EXPECT_EQ(row(Op::kLessEqual), 6);
  EXPECT_EQ(row(Op::kGreater), 1);
  EXPECT_EQ(row(Op::kGreaterEqual), 3);
  EXPECT_EQ(row(Op::kEqual), 2);
  EXPECT_EQ(row(Op::kNotEqual), 5);
  EXPECT_THROW(row(Op::kIn), Internal);
}

}  // namespace
}  // namespace penstock
