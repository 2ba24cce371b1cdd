#include <gtest/gtest.h>
#include <penstock/error.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/byte_reader.h"
#include "base/testing/test_seed.h"
#include "format/chunked/testing/visit_group.h"
#include "format/chunked/testing/whole_array.h"
#include "format/hdf5/checksum.h"
#include "format/hdf5/hierarchy.h"
#include "format/hdf5/testing/hdf5_golden.h"
#include "io/memory_store.h"

// Files that h5py wrote: whole, cut, and with a changed byte.

namespace penstock::format::hdf5 {
namespace {

uint32_t checksum_of(std::string_view text) {
  return metadata_checksum(std::as_bytes(std::span(text)));
}

// Source: lookup3.c, driver5.
TEST(Hdf5Checksum, IsThatOfItsAuthor) {
  EXPECT_EQ(checksum_of(""), 0xdeadbeefU);
  EXPECT_EQ(checksum_of("Four score and seven years ago"), 0x17770551U);
}

chunked::GroupPtr open(const std::string& bytes) {
  const auto store = std::make_shared<io::MemoryStore>();
  store->put("x.h5", bytes);
  return open_hdf5(store, "x.h5");
}

std::string contents_of(const chunked::Array& array) {
  std::string text;
  if (array.info().strings == chunked::StringForm::kNone) {
    const auto values = chunked::whole_values(array);
    return {reinterpret_cast<const char*>(values.data()), values.size()};
  }
  const auto strings = chunked::read_strings(array, 0, array.info().shape[0], 1);
  for (size_t i = 0; i + 1 < strings.offsets.size(); ++i) {
    const auto length = static_cast<uint32_t>(strings.offsets[i + 1] - strings.offsets[i]);
    text.append(reinterpret_cast<const char*>(&length), sizeof(length));
    text.append(reinterpret_cast<const char*>(strings.characters.data()) + strings.offsets[i],
                length);
  }
  return text;
}

TEST(Hdf5Golden, ArraysAreThoseOfH5py) {
  const auto files = load_hdf5_golden();
  ASSERT_EQ(files.size(), 4U);
  for (const auto& [name, file] : files) {
    const auto root = open(file.bytes);
    ASSERT_NE(root, nullptr);
    ASSERT_GT(file.arrays.size(), 20U);
    for (const GoldenArray& golden : file.arrays) {
      const auto array = root->array(golden.name);
      ASSERT_NE(array, nullptr) << name << " " << golden.name;
      EXPECT_EQ(array->info().strings != chunked::StringForm::kNone, golden.kind == "strings");
      EXPECT_EQ(contents_of(*array), golden.expected) << name << " " << golden.name;
    }
  }
}

TEST(Hdf5Golden, AttributesAndReferences) {
  for (const auto& [name, file] : load_hdf5_golden()) {
    const auto root = open(file.bytes);
    std::string text;
    for (int i = 0; i < 10; ++i, text += "text ") {
      EXPECT_EQ(root->attributes().at("attribute " + std::to_string(i)), text) << name;
    }
    EXPECT_EQ(root->attributes().at("numbers"), nlohmann::json({0, 1, 2, 3, 4}));
    EXPECT_EQ(root->attributes().at("flag"), true);
    const std::string target = root->array("words")->attributes().at("refers to");
    const auto referred = root->array(target);
    ASSERT_NE(referred, nullptr);
    EXPECT_EQ(contents_of(*referred), contents_of(*root->array("bytes")));
    EXPECT_EQ(contents_of(*root->array("link")), contents_of(*root->array("bytes")));
    EXPECT_EQ(root->array("table")->info().fields.size(), 3U);
    EXPECT_EQ(root->array("nothing"), nullptr);
    EXPECT_EQ(root->group("two/dimensions")->members().size(), 9U);
  }
}

/// Opens and reads all; true if something was refused.
bool is_refused(const std::string& bytes) {
  try {
    const auto root = open(bytes);
    return root == nullptr || chunked::visit_group(*root) != 0;
  } catch (const CorruptData&) {
  } catch (const Unsupported&) {
  }
  return true;
}

// Values without a checksum, and what nobody reads, may change unseen.
TEST(Hdf5Damage, AFlippedByteIsAnErrorOrUnread) {
  for (auto& [name, file] : load_hdf5_golden()) {
    ASSERT_FALSE(is_refused(file.bytes));
    size_t refused = 0, tried = 0;
    std::string bytes = file.bytes;
    for (size_t at = 0; at < bytes.size(); at += test_step(13)) {
      for (const char flip : {'\x01', '\x80', '\xFF'}) {
        bytes[at] = static_cast<char>(file.bytes[at] ^ flip);
        refused += is_refused(bytes);
        ++tried;
      }
      bytes[at] = file.bytes[at];
    }
    EXPECT_GT(refused, tried / 20) << name;
  }
}

/// Damage in what no checksum covers may change values, but not what is there.
TEST(Hdf5Damage, AFlippedByteOfAHeapOfAttributesIsAnError) {
  constexpr size_t kLeastBlock = 512;
  const std::string whole = load_hdf5_golden().at("latest").bytes;
  size_t blocks = 0;
  for (size_t at = whole.find("FHDB"); at != std::string::npos; at = whole.find("FHDB", at + 1)) {
    ++blocks;
    std::string bytes = whole;
    for (size_t i = at; i < at + kLeastBlock; ++i) {
      bytes[i] = static_cast<char>(whole[i] ^ '\x04');
      EXPECT_TRUE(is_refused(bytes)) << i;
      bytes[i] = whole[i];
    }
  }
  EXPECT_GT(blocks, 1U);
}

TEST(Hdf5Damage, ACutFileIsAnError) {
  for (const auto& [name, file] : load_hdf5_golden()) {
    for (size_t length = 0; length < file.bytes.size(); length += 1 + length / 9) {
      EXPECT_TRUE(is_refused(file.bytes.substr(0, length))) << name << " " << length;
    }
  }
}

}  // namespace
}  // namespace penstock::format::hdf5
