#pragma once

#include <penstock/experiment.h>

#include <cstdint>
#include <memory>
#include <string>

namespace penstock {

struct CacheOptions {
  std::string folder;  ///< of any number of experiments, shared by processes
  /// Of everything in the folder. Where none is given a twentieth of the disk stays free, 4 GiB at
  /// most.
  uint64_t limit_bytes = ~uint64_t{0};
};

/// Rows of slow stores kept on a local disk, as they were read: every fetch unit that is decoded is
/// written there with all of its columns, and read from there from then on. Units that were not
/// used for longest make place for others; those that this process has used stay. A folder that
/// cannot be written, or a full disk, ends the keeping, not the reading.
///
/// Any threads and processes at once, killed at any moment. What is kept is told apart by the
/// content of the source, so that nothing is served that was written over.
class Cache {
 public:
  explicit Cache(CacheOptions options);
  ~Cache();

  /// The same matrix, read through the cache; itself where it addresses rows already. Unsupported
  /// where the content is not known.
  Matrix through(const Matrix& matrix);

  /// Why nothing is kept any more; empty while it is.
  std::string problem() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace penstock
