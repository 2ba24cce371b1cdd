#include "format/row_file/row_file.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "base/hash/checksum.h"
#include "base/testing/test_seed.h"
#include "format/pack/testing/packed_rows.h"
#include "format/row_file/row_file_layout.h"
#include "io/descriptor_cache.h"

namespace penstock::format::pack {
namespace {

using testing::make_packed_rows;
using testing::TemporaryFolder;

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::vector<char>& bytes) {
  io::forget_descriptor(path);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

RowFileFacts facts_of(int64_t begin, int64_t end) {
  RowFileFacts facts;
  facts.key = content_key("a");
  facts.row_begin = begin;
  facts.row_end = end;
  facts.column_count = 10;
  return facts;
}

TEST(RowFile, FindsEveryRecord) {
  const TemporaryFolder folder;
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (const bool gaps : {false, true}) {
    const std::string path = folder.file(gaps ? "gaps" : "full");
    RowFileWriter writer(path, facts_of(1000, 4000), true);
    std::vector<std::pair<int64_t, std::vector<std::byte>>> written;
    for (int64_t id = 1000; id < 3000; ++id) {
      if (gaps && random() % 3 == 0) continue;
      // One is too long for its place in the index.
      std::vector<std::byte> record((id == 1500 ? 70000 : random() % 50) * 4);
      for (std::byte& byte : record) byte = static_cast<std::byte>(random());
      writer.append(id, record, 3);
      written.emplace_back(id, record);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    const uint64_t size = writer.finish();
    EXPECT_EQ(size, std::filesystem::file_size(path));
    const auto file = RowFile::open(io::file_store(), path);
    EXPECT_EQ(file->rows().size(), written.size());
    EXPECT_EQ(file->nonzeros(), 3 * written.size());
    EXPECT_EQ(file->facts().key, content_key("a"));
    EXPECT_EQ(file->facts().row_end, 4000);
    for (const auto& [id, record] : written) {
      RecordPlace place;
      ASSERT_TRUE(file->find(id, place));
      ASSERT_EQ(place.length, record.size());
      std::vector<std::byte> read(place.length);
      file->read(place.offset, read);
      ASSERT_EQ(read, record);
    }
    RecordPlace place;
    EXPECT_FALSE(file->find(999, place));
    EXPECT_FALSE(file->find(3000, place));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), gaps ? 2 : 1);
  }
}

TEST(RowFile, WithoutRows) {
  const TemporaryFolder folder;
  RowFileWriter(folder.file("none"), facts_of(5, 5), false).finish();
  const auto file = RowFile::open(io::file_store(), folder.file("none"));
  EXPECT_TRUE(file->rows().empty());
  RecordPlace place;
  EXPECT_FALSE(file->find(5, place));
}

TEST(RowFile, NothingIsLeftOfAWriterThatDoesNotFinish) {
  const TemporaryFolder folder;
  {
    RowFileWriter writer(folder.file("x"), facts_of(0, 9), false);
    writer.append(3, {}, 0);
    EXPECT_THROW(writer.append(3, {}, 0), Internal);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RowFile, EveryDamagedByteOfHeaderAndIndexIsSeen) {
  const TemporaryFolder folder;
  make_packed_rows(folder, {.row_count = 60, .rows_per_file = 60}, 1);
  const std::string path = folder.file("0.rows");
  const auto bytes = bytes_of(path);
  RowFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i >= sizeof(header) && i < header.index_offset) continue;  // records have their own
    auto damaged = bytes;
    damaged[i] ^= 0x10;
    write_bytes(path, damaged);
    EXPECT_THROW(RowFile::open(io::file_store(), path), Error) << i;
  }
  for (size_t length = 0; length < bytes.size(); length += 7) {
    write_bytes(path, {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length)});
    EXPECT_THROW(RowFile::open(io::file_store(), path), CorruptData) << length;
  }
}

// Hostile files: checksums match the changed bytes.
TEST(RowFile, HostileHeadersAndIndexes) {
  const TemporaryFolder folder;
  make_packed_rows(folder, {.row_count = 60, .rows_per_file = 60}, 1);
  const std::string path = folder.file("0.rows");
  const auto bytes = bytes_of(path);
  RowFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    auto damaged = bytes;
    for (int i = 0; i < 2; ++i) {
      const size_t at = random() % 2 == 0 ? 8 + random() % (sizeof(header) - 16)
                                          : header.index_offset + random() % header.index_bytes;
      damaged[at] = static_cast<char>(random());
    }
    RowFileHeader changed;
    std::memcpy(&changed, damaged.data(), sizeof(changed));
    const auto index = std::as_bytes(std::span(damaged)).subspan(header.index_offset);
    changed.index_checksum = lane_checksum(index);
    changed.header_checksum = lane_checksum(
        std::as_bytes(std::span(&changed, 1)).first(sizeof(changed) - sizeof(uint32_t)));
    std::memcpy(damaged.data(), &changed, sizeof(changed));
    write_bytes(path, damaged);
    try {
      const auto file = RowFile::open(io::file_store(), path);
      for (uint64_t i = 0; i < file->rows().size(); ++i) {
        const RecordPlace place = file->place(i);
        ASSERT_LE(place.offset + place.length, file->file_bytes());
      }
    } catch (const Error&) {
    }
  }
}

TEST(RowFile, NewerVersionsAreNamed) {
  const TemporaryFolder folder;
  make_packed_rows(folder, {.row_count = 10, .rows_per_file = 10}, 1);
  const std::string path = folder.file("0.rows");
  auto bytes = bytes_of(path);
  bytes[8] = 9;
  write_bytes(path, bytes);
  try {
    RowFile::open(io::file_store(), path);
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("version 9"), std::string::npos);
  }
}

// A pack that was replaced while it is read: the index that is held is not that of the new file.
TEST(RowFile, AFileThatWasReplacedIsNotRead) {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  make_packed_rows(folder, {.row_count = 100, .rows_per_file = 100}, 1);
  make_packed_rows(other, {.row_count = 100, .rows_per_file = 100}, 2);
  const std::string path = folder.file("0.rows");
  const auto file = RowFile::open(io::file_store(), path);
  std::vector<std::byte> bytes(16);
  file->read(200, bytes);
  std::filesystem::rename(other.file("0.rows"), path);
  io::forget_descriptor(path);  // others needed its place
  try {
    file->read(200, bytes);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("replaced while it was read: " + path),
              std::string::npos)
        << error.what();
  }
}

TEST(DescriptorCache, FilesStayReadableAndFew) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i)
    write_bytes(folder.file(std::to_string(i)), std::vector<char>(8, 'a'));
  const auto held = io::open_descriptor(folder.file("0"));
  EXPECT_EQ(io::open_descriptor(folder.file("0")), held);
  std::filesystem::remove(folder.file("0"));
  std::byte byte{};
  held->read(3, {&byte, 1});
  EXPECT_EQ(byte, std::byte{'a'});
  io::forget_descriptor(folder.file("0"));
  EXPECT_THROW(io::open_descriptor(folder.file("0")), NotFound);
  std::vector<std::byte> two(2);
  EXPECT_THROW(held->read(7, two), CorruptData);
  EXPECT_GE(io::descriptor_limit(), 1U);
}

TEST(DescriptorCache, ThreadsAndChildren) {
  const TemporaryFolder folder;
  for (int i = 0; i < 50; ++i) {
    write_bytes(folder.file(std::to_string(i)), std::vector<char>(100, static_cast<char>(i)));
  }
  const auto read_all = [&] {
    bool right = true;
    for (int i = 0; i < 50; ++i) {
      std::byte byte{};
      io::open_descriptor(folder.file(std::to_string(i)))->read(50, {&byte, 1});
      right = right && byte == static_cast<std::byte>(i);
    }
    return right;
  };
  std::vector<std::thread> threads;
  threads.reserve(4);
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] { wrong += read_all() ? 0 : 1; });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(read_all() ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::format::pack
