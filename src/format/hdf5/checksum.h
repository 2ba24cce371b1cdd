#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::format::hdf5 {

/// Checksum of HDF5's metadata: Bob Jenkins' lookup3, hashlittle() with an initial value of 0.
/// Source: HDF5 File Format Specification; burtleburtle.net/bob/c/lookup3.c (public domain).
uint32_t metadata_checksum(std::span<const std::byte> bytes) noexcept;

/// While one lives, wrong checksums are believed. For fuzz targets, which would be stopped by them.
class IgnoreChecksums {
 public:
  IgnoreChecksums() noexcept;
  ~IgnoreChecksums();
  IgnoreChecksums(const IgnoreChecksums&) = delete;
  IgnoreChecksums& operator=(const IgnoreChecksums&) = delete;

  static bool active() noexcept;
};

}  // namespace penstock::format::hdf5
