#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/threads/lazy.h"
#include "format/chunked/array.h"
#include "format/hdf5/file.h"
#include "format/hdf5/object/messages.h"
#include "format/hdf5/object/object_header.h"
#include "format/hdf5/trees/chunk_index.h"

// An array (dataset) of an HDF5 file. The index of its chunks is read when the first chunk is asked
// for, and kept.
//
// Data that are not chunked are one chunk, or one for each row of a matrix.

namespace penstock::format::hdf5 {

class Hdf5Array final : public chunked::Array {
 public:
  /// `path`: for people. Throws CorruptData, or Unsupported for what is not read.
  Hdf5Array(FilePtr file, const ObjectHeader& header, const std::string& path);

  const chunked::ArrayInfo& info() const override { return info_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  const io::Store& store() const override { return *file_->store(); }
  std::vector<chunked::ChunkPlace> places(std::span<const uint64_t> chunks) const override;
  double stored_bytes_per_chunk() const override;
  std::string version() const override;
  void expect_unchanged() const override { file_->expect_unchanged(); }
  chunked::Strings strings_of(std::span<const std::byte> cells, unsigned threads) const override;

 private:
  void take_type(const Datatype& type);
  void take_member(const Datatype::Member& member);
  void take_fill_value(const ObjectHeader& header, const Datatype& type);
  void take_layout(const ObjectHeader& header);
  const ChunkIndex& index() const;
  bool is_cut(uint64_t chunk) const;

  const FilePtr file_;
  chunked::ArrayInfo info_;
  nlohmann::json attributes_;
  Dataspace space_;
  Layout layout_;
  uint64_t chunk_count_ = 0;
  mutable Lazy<ChunkIndex> index_;
};

}  // namespace penstock::format::hdf5
