#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

// Keeps files open that are read at random: opening costs ten times a read of some kilobytes.
//
//   const auto file = open_descriptor(path);          from the cache of the process, or opened
//   file->read(offset, out);                          pread: only the descriptor is shared
//
// The cache keeps the most recently used files, at most a quarter of the process's descriptor
// limit. A file in use stays open after it was evicted. It can still be read after its name was
// removed or replaced. Safe from any thread. A forked child keeps reading with inherited
// descriptors.

namespace penstock::io {

class OpenFile {
 public:
  /// Throws `NotFound`, `IoError`, or `ResourceExhausted` if no descriptors are left.
  explicit OpenFile(const std::string& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Fills `out`. Throws CorruptData if the file is too short.
  void read(uint64_t offset, std::span<std::byte> out) const;

  /// Hints that the system should read ahead.
  void will_need(uint64_t offset, uint64_t length) const noexcept;

  uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// Distinguishes the file from others of the same name, past or present.
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

/// Removes `path` from the cache, so that the next reader opens the file that has the name now.
void forget_descriptor(const std::string& path);

/// Most files that the cache keeps.
size_t descriptor_limit();

}  // namespace penstock::io
