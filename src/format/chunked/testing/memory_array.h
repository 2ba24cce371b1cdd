#pragma once

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "format/chunked/array.h"
#include "io/memory_store.h"

// Arrays and groups of chunks in memory, for tests of what reads them.

namespace penstock::format::chunked {

/// How a MemoryArray stores its chunks.
struct MemoryLayout {
  uint64_t chunk_length = 1;
  bool compressed = false;  ///< by zstd, or deflate; with byte planes before if `shuffled`
  bool shuffled = false;
  bool big_endian = false;
  bool absent_zeros = false;  ///< chunks of `fill` are left out
  bool deflated = false;      ///< by deflate, if `compressed`
  int fill = 0;               ///< the fill value
};

/// A 1-D array of numbers.
class MemoryArray final : public Array {
 public:
  template <typename T>
  MemoryArray(std::shared_ptr<io::MemoryStore> store, std::string path, DataType type,
              const std::vector<T>& values, const MemoryLayout& layout)
      : store_(std::move(store)), layout_(layout) {
    info_.path = std::move(path);
    info_.shape = {values.size()};
    info_.chunk_shape = {layout.chunk_length};
    info_.type = type;
    info_.cell_bytes = sizeof(T);
    info_.big_endian = layout.big_endian;
    info_.fill_value.resize(sizeof(T));
    const T fill = static_cast<T>(layout.fill);
    std::memcpy(info_.fill_value.data(), &fill, sizeof(T));
    std::vector<codec::ChunkFilter> filters;
    if (layout.compressed) {
      if (layout.shuffled) filters.push_back({codec::ChunkFilterType::kShuffle, sizeof(T)});
      filters.push_back(
          {layout.deflated ? codec::ChunkFilterType::kZlib : codec::ChunkFilterType::kZstd, 0});
    }
    info_.pipeline = codec::ChunkPipeline(std::move(filters));
    for (uint64_t chunk = 0; chunk * layout.chunk_length < values.size(); ++chunk) {
      std::vector<T> cells(layout.chunk_length, fill);
      const uint64_t first = chunk * layout.chunk_length;
      std::copy_n(values.begin() + static_cast<ptrdiff_t>(first),
                  std::min<uint64_t>(layout.chunk_length, values.size() - first), cells.begin());
      std::vector<std::byte> bytes(cells.size() * sizeof(T));
      std::memcpy(bytes.data(), cells.data(), bytes.size());
      const auto is_fill = [&](const T& cell) {  // -0.0 is not 0
        return std::memcmp(&cell, &fill, sizeof(T)) == 0;
      };
      if (layout.absent_zeros && std::all_of(cells.begin(), cells.end(), is_fill)) continue;
      store_->put(object(chunk), stored(std::move(bytes), sizeof(T)));
    }
  }

  const ArrayInfo& info() const override { return info_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  const io::Store& store() const override { return *store_; }
  std::vector<ChunkPlace> places(std::span<const uint64_t> chunks) const override {
    std::vector<ChunkPlace> places;
    for (const uint64_t chunk : chunks) {
      const std::string path = object(chunk);
      places.push_back(store_->exists(path)
                           ? ChunkPlace{path, kBefore, store_->size_bytes(path) - kBefore, 0}
                           : ChunkPlace{});
    }
    return places;
  }
  double stored_bytes_per_chunk() const override { return 1000; }
  std::string version() const override { return "1"; }

  std::string object(uint64_t chunk) const { return info_.path + "/" + std::to_string(chunk); }

  nlohmann::json attributes_ = nlohmann::json::object();

 private:
  static constexpr size_t kBefore = 3;  ///< bytes before a chunk in its object

  std::vector<std::byte> stored(std::vector<std::byte> bytes, size_t cell) const {
    if (layout_.big_endian) {
      for (size_t i = 0; i < bytes.size(); i += cell) {
        std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                     bytes.begin() + static_cast<ptrdiff_t>(i + cell));
      }
    }
    if (layout_.compressed && layout_.shuffled) {
      std::vector<std::byte> planes(bytes.size());
      const size_t count = bytes.size() / cell;
      for (size_t i = 0; i < bytes.size(); ++i) planes[i % cell * count + i / cell] = bytes[i];
      bytes = std::move(planes);
    }
    if (layout_.compressed && layout_.deflated) {
      uLongf size = compressBound(bytes.size());
      std::vector<std::byte> packed(size);
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 1);
      packed.resize(size);
      bytes = std::move(packed);
    } else if (layout_.compressed) {
      std::vector<std::byte> packed(ZSTD_compressBound(bytes.size()));
      packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1));
      bytes = std::move(packed);
    }
    bytes.insert(bytes.begin(), kBefore, std::byte{0xAB});
    return bytes;
  }

  std::shared_ptr<io::MemoryStore> store_;
  MemoryLayout layout_;
  ArrayInfo info_;
};

/// A group of arrays that a test puts into it.
class MemoryGroup final : public Group {
 public:
  explicit MemoryGroup(std::string path) : path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  std::vector<std::string> members() const override {
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays_) names.push_back(name);
    return names;
  }
  std::shared_ptr<const Group> group(const std::string& /*name*/) const override { return nullptr; }
  ArrayPtr array(const std::string& name) const override {
    const auto found = arrays_.find(name);
    return found == arrays_.end() ? nullptr : found->second;
  }

  std::map<std::string, ArrayPtr> arrays_;
  nlohmann::json attributes_ = nlohmann::json::object();

 private:
  std::string path_;
};

}  // namespace penstock::format::chunked
