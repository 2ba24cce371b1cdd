#pragma once

#include <penstock/data_type.h>
#include <penstock/row_selection.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/buffer.h"
#include "io/descriptor_cache.h"
#include "io/store.h"

// A row file (docs/reference/pack-format.md): records of the rows in one range of ids, and an index
// to find each record. A file is complete or absent, because it is written under another name and
// renamed. Packs and caches consist of row files.
//
//   RowFileWriter writer(path, facts);             writer.append(row, record); … writer.finish();
//   const auto file = RowFile::open(store, path);  header and index, checked
//   RecordPlace place;                             where a record is; the caller reads and checks
//   if (file->find(row, place)) …                  the record
//
// The index takes 2.5 bytes a row in memory. A RowFile is immutable; any thread. A writer is for
// one thread.

namespace penstock::format::pack {

inline constexpr uint32_t kRowFileVersion = 1;

/// Identifies the content that the rows were made from: 32 bytes. Files of different content never
/// have the same key.
using ContentKey = std::array<std::byte, 32>;

/// Returns the SHA-256 of a text that describes the content.
ContentKey content_key(std::string_view text);

struct RowFileFacts {
  ContentKey key{};
  int64_t row_begin = 0;  ///< ids are in [row_begin, row_end)
  int64_t row_end = 0;
  uint64_t column_count = 0;
  DataType value_type = DataType::kFloat32;
};

/// Place of a record. Empty rows have a length of 0.
struct RecordPlace {
  uint64_t offset = 0;
  uint64_t length = 0;
};

class RowFile {
 public:
  /// Throws NotFound, CorruptData (a checksum, a length), or Unsupported for a newer version.
  static std::shared_ptr<const RowFile> open(const io::StorePtr& store, const std::string& path);

  /// Tells the store that all of these will be opened: two round trips for any number of files.
  static void announce(const io::Store& store, std::span<const std::string> paths);

  const std::string& path() const noexcept { return path_; }
  const io::Store& store() const noexcept { return *store_; }
  /// True if each read is a network round trip.
  bool remote() const noexcept { return remote_; }
  const RowFileFacts& facts() const noexcept { return facts_; }
  const RowSelection& rows() const noexcept { return rows_; }
  uint64_t nonzeros() const noexcept { return nonzeros_; }
  uint64_t file_bytes() const noexcept { return file_bytes_; }
  uint64_t record_bytes() const noexcept { return record_bytes_; }
  size_t memory_bytes() const noexcept;

  bool contains(int64_t row) const;
  /// Place of the row at a position of rows().
  RecordPlace place(uint64_t position) const;
  /// Returns false if the file does not have the row.
  bool find(int64_t row, RecordPlace& place) const;

  void read(uint64_t offset, std::span<std::byte> out) const;
  void will_need(uint64_t offset, uint64_t length) const noexcept;

  RowFile(io::StorePtr store, std::string path)
      : store_(std::move(store)), path_(std::move(path)) {}

 private:
  void load();
  void load_index(std::span<const std::byte> index, uint64_t row_count);
  uint64_t words(uint64_t position) const;
  std::shared_ptr<const io::OpenFile> opened() const;

  io::StorePtr store_;
  std::string path_;
  bool local_ = false;
  bool remote_ = false;
  io::OpenFile::Identity identity_;  ///< of a local file
  RowFileFacts facts_;
  RowSelection rows_;
  bool contiguous_ = false;  ///< the file has every row from row_begin on
  uint64_t nonzeros_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t record_bytes_ = 0;
  std::vector<uint16_t> words_;        ///< lengths by position, in words of 4 bytes
  std::vector<uint64_t> group_bases_;  ///< offset of every 16th record
  std::vector<std::pair<uint64_t, uint64_t>> long_words_;  ///< position and length of long records
};

/// A name beside a file that no other writer has: on other machines that share the folder, and in
/// containers, process numbers repeat.
std::string temporary_name(const std::string& path);

class RowFileWriter {
 public:
  /// `durable`: once finish() has returned, the file survives a loss of power.
  RowFileWriter(std::string path, const RowFileFacts& facts, bool durable);
  ~RowFileWriter();
  RowFileWriter(const RowFileWriter&) = delete;
  RowFileWriter& operator=(const RowFileWriter&) = delete;

  /// Rows must ascend. Throws ResourceExhausted if the disk is full.
  void append(int64_t row, std::span<const std::byte> record, uint64_t nonzeros);

  /// Writes index and header and gives the file its name. Returns its size.
  uint64_t finish();

 private:
  void write(std::span<const std::byte> bytes);
  void flush();
  std::vector<std::byte> index_bytes() const;

  std::string path_;
  std::string temporary_;
  RowFileFacts facts_;
  bool durable_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  uint64_t written_ = 0;
  uint64_t nonzeros_ = 0;
  std::vector<int64_t> rows_;
  std::vector<uint16_t> words_;
  std::vector<std::pair<uint64_t, uint64_t>> long_words_;
};

}  // namespace penstock::format::pack
