#include "codec/vlen_utf8.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <string>

namespace penstock::codec {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, uint32_t number) {
  bytes.resize(bytes.size() + sizeof(number));
  std::memcpy(bytes.data() + bytes.size() - sizeof(number), &number, sizeof(number));
}

Bytes store(const std::vector<std::string>& texts) {
  Bytes chunk;
  append(chunk, static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) {
    append(chunk, static_cast<uint32_t>(text.size()));
    for (const char c : text) chunk.push_back(static_cast<std::byte>(c));
  }
  return chunk;
}

struct Strings {
  Bytes characters;
  std::vector<uint64_t> offsets;
};

TEST(VlenUtf8, AppendsToWhatIsThere) {
  Strings got;
  decode_vlen_utf8(store({"ab", "", "\u03b2"}), 3, got.characters, got.offsets);
  decode_vlen_utf8(store({}), 0, got.characters, got.offsets);
  decode_vlen_utf8(store({"c"}), 1, got.characters, got.offsets);
  EXPECT_EQ(got.offsets, (std::vector<uint64_t>{2, 2, 4, 5}));
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(got.characters.data()), got.characters.size()),
      "ab\u03b2c");
}

void expect_corrupt(const Bytes& chunk, uint64_t count) {
  Strings got{Bytes(3), {3}};
  EXPECT_THROW(decode_vlen_utf8(chunk, count, got.characters, got.offsets), CorruptData);
  EXPECT_EQ(got.characters.size(), 3U);
  EXPECT_EQ(got.offsets.size(), 1U);
}

TEST(VlenUtf8, RefusesOtherCountsAndBytes) {
  const Bytes chunk = store({"ab", "c"});
  expect_corrupt(chunk, 1);
  expect_corrupt(chunk, 3);
  Bytes longer = chunk;
  longer.push_back(std::byte{0});
  expect_corrupt(longer, 2);
  for (size_t length = 0; length < chunk.size(); ++length) {
    expect_corrupt(Bytes(chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(length)), 2);
  }
  Bytes many;
  append(many, 0xFFFFFFFFU);
  expect_corrupt(many, 0xFFFFFFFFU);
  expect_corrupt(many, 0xFFFFFFFF00000000U);
}

TEST(VlenUtf8, RefusesWhatIsNoUtf8) {
  expect_corrupt(store({"ab", "\xC3"}), 2);
  expect_corrupt(store({"\xED\xA0\x80"}), 1);
  // Two strings that are UTF-8 only together.
  expect_corrupt(store({"\xC3", "\xA4"}), 2);
}

}  // namespace
}  // namespace penstock::codec
