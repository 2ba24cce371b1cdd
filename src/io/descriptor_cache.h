#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

// Files that are read at random, kept open: opening costs ten times a read of some kilobytes.
//
//   const auto file = open_descriptor(path);          from the cache of the process, or opened
//   file->read(offset, out);                          pread: nothing is shared but the descriptor
//
// At most a quarter of the descriptors that the process may have are kept, those used last. A file
// in use stays open when it leaves the cache, and can be read when it was removed or replaced by
// name. Any thread; a process that forks reads on with the descriptors that it inherits.

namespace penstock::io {

class OpenFile {
 public:
  /// `NotFound`, `IoError`, or `ResourceExhausted` when there are no descriptors.
  explicit OpenFile(const std::string& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Fills `out`; CorruptData where the file ends before.
  void read(uint64_t offset, std::span<std::byte> out) const;

  /// Lets the system read ahead; whether it does is its own business.
  void will_need(uint64_t offset, uint64_t length) const noexcept;

  uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// What tells the file from another that has, or had, its name.
  struct Identity {
    uint64_t device = 0, number = 0, size_bytes = 0;
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  Identity identity() const noexcept { return {device_, number_, size_bytes_}; }

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t device_ = 0, number_ = 0, size_bytes_ = 0;  ///< when it was opened
};

std::shared_ptr<const OpenFile> open_descriptor(const std::string& path);

/// Closes what the cache holds of `path`, so that the next reader opens what has that name now.
void forget_descriptor(const std::string& path);

/// How many the cache keeps at most.
size_t descriptor_limit();

}  // namespace penstock::io
