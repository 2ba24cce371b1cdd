#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <memory>
#include <string>

namespace penstock {

struct CacheOptions {
  std::string folder;  ///< may be shared by any number of experiments and processes
  /// Limit of everything in the folder. Without a limit, 4 GiB of the disk stay free, or a
  /// twentieth of the disk if that is less.
  uint64_t limit_bytes = ~uint64_t{0};
};

/// Keeps rows of slow stores on a local disk. Each decoded fetch unit is written there with all its
/// columns, and later epochs read it from there. The least recently used units are evicted first,
/// but never units that this process has used. If the folder cannot be written or the disk is full,
/// the cache stops keeping rows, but reading continues.
///
/// Safe from any threads and processes at once, which may be killed at any moment. Entries are
/// identified by the content of the source, so rows of an overwritten source are never served.
class Cache {
 public:
  explicit Cache(CacheOptions options);
  ~Cache();

  /// The same matrix, read through the cache. Returns `matrix` itself if it addresses rows already.
  /// The first use throws Unsupported if the source has no known content.
  Matrix through(const Matrix& matrix);

  /// Why the cache stopped keeping rows; empty while it keeps them.
  std::string problem() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace penstock
