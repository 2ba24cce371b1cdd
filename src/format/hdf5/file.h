#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "base/memory/buffer.h"
#include "base/threads/mutex.h"
#include "io/store.h"

// An HDF5 file: its superblock, and its bytes by address through a cache of pages. Metadata are
// small and lie near one another, so a page that is read once serves many of them; of a remote
// store a page is one request.
//
// Addresses count from the superblock's base address, which follows a user block. Everything in the
// file is untrusted: an address or length outside of it is CorruptData, which names the file. No
// file is locked and none is written. Immutable but for the cache; safe from any thread.
//
// Source of the format: HDF5 File Format Specification 3.0 and 4.0 (HDF Group).

namespace penstock::format::hdf5 {

class File {
 public:
  /// Null if there is no HDF5 signature at the beginning, or behind a user block. Throws
  /// CorruptData for a damaged superblock or a file that was cut, Unsupported for a version that is
  /// not known.
  static std::shared_ptr<const File> open(const io::StorePtr& store, const std::string& path);

  const io::StorePtr& store() const noexcept { return store_; }
  const std::string& path() const noexcept { return path_; }
  uint64_t root_address() const noexcept { return root_address_; }
  uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// Bytes of an address and of a length, as the superblock says: 2, 4 or 8.
  unsigned offset_bytes() const noexcept { return offset_bytes_; }
  unsigned length_bytes() const noexcept { return length_bytes_; }

  /// Reads an address or a length; `what` names it in an error.
  uint64_t read_address(ByteReader& reader, std::string_view what) const;
  uint64_t read_length(ByteReader& reader, std::string_view what) const;
  /// Whether an address says that there is nothing.
  bool is_undefined(uint64_t address) const noexcept { return address == undefined_; }

  /// Position in the file of `length` bytes at an address. Throws CorruptData if they are not in
  /// it.
  uint64_t position_of(uint64_t address, uint64_t length, std::string_view what) const;

  /// Throws CorruptData if the file was written since it was opened. A remote store is not asked.
  void expect_unchanged() const;

  /// A copy of the bytes at an address.
  Buffer read(uint64_t address, uint64_t length, std::string_view what) const;

  /// Brings the pages of these places into the cache, with as few waits as the store allows.
  struct Place {
    uint64_t address = 0, length = 0;
  };
  void will_read(std::span<const Place> places) const;

 private:
  using Page = std::shared_ptr<const Buffer>;

  File(io::StorePtr store, std::string path);
  bool find_superblock();
  void read_superblock(uint64_t at);
  std::vector<Page> pages(std::span<const uint64_t> numbers) const PENSTOCK_EXCLUDES(mutex_);
  /// Reads the pages numbers[i] of these i, which this thread has put into `reading_`.
  void read_pages(std::span<const uint64_t> numbers, std::span<const size_t> places,
                  std::vector<Page>& found) const PENSTOCK_EXCLUDES(mutex_);

  const io::StorePtr store_;
  const std::string path_;
  std::string version_;  ///< when it was opened; empty: not known
  uint64_t size_bytes_ = 0;
  uint64_t page_bytes_ = 0;
  uint64_t base_ = 0;
  uint64_t undefined_ = ~uint64_t{0};
  uint64_t root_address_ = 0;
  unsigned offset_bytes_ = 8;
  unsigned length_bytes_ = 8;
  mutable Mutex mutex_;
  mutable ConditionVariable read_;
  mutable std::map<uint64_t, Page> pages_ PENSTOCK_GUARDED_BY(mutex_);
  mutable std::set<uint64_t> reading_ PENSTOCK_GUARDED_BY(mutex_);  ///< pages that a thread reads
};

using FilePtr = std::shared_ptr<const File>;

/// An unsigned integer of 0 to 8 bytes.
uint64_t read_number(ByteReader& reader, unsigned bytes, std::string_view what);

/// Bytes that hold a number up to `most`.
inline unsigned bytes_for(uint64_t most) noexcept {
  return most == 0 ? 1 : static_cast<unsigned>((std::bit_width(most) - 1) / 8 + 1);
}

/// Throws CorruptData unless the next four bytes are `signature`.
void expect_signature(ByteReader& reader, std::string_view signature);

/// Throws Unsupported unless the next byte is one of the versions first … last, CorruptData for a
/// version far beyond them, as damage makes them.
uint8_t read_version(ByteReader& reader, uint8_t first, uint8_t last, std::string_view what);

/// Throws CorruptData unless the last four bytes are the checksum of those before.
void expect_checksum(std::span<const std::byte> bytes, std::string_view what);
/// Throws CorruptData unless `stored` is the checksum of all bytes.
void expect_checksum(std::span<const std::byte> covered, uint32_t stored, std::string_view what);

/// Counts the bytes that a walk reads. What is stored once and read once is no larger than the
/// file, so more bytes are CorruptData: nodes that refer to one another in circles, or to the same
/// place.
class Walk {
 public:
  /// `times`: how often the same bytes may be read.
  explicit Walk(const File& file, uint64_t times = 1) : left_(file.size_bytes() * times) {}
  void count(uint64_t bytes, std::string_view what) {
    if (bytes > left_) {
      throw CorruptData(concat(what, " refer to one another, or several to one place"));
    }
    left_ -= bytes;
  }

 private:
  uint64_t left_;
};

}  // namespace penstock::format::hdf5
