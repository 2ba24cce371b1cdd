#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "format/cache/cached_source.h"
#include "format/pack/testing/packed_rows.h"

// Row files for a source and a cache in front of it, each in its own folder.

namespace penstock::format::pack::testing {

/// A source on disk, and a cache beside it.
class CachedSourceTest : public ::testing::Test {
 protected:
  CachedSourceTest() : made(make_packed_rows(source_folder, {}, 21)) {
    for (int64_t c = 0; c < made.info.column_domain_end; c += 2) columns.push_back(c);
  }

  /// The limit makes tests independent of the free disk space.
  std::shared_ptr<CacheFolder> folder(uint64_t limit = uint64_t{1} << 40) const {
    return std::make_shared<CacheFolder>(cache_folder.file("cache"), limit);
  }
  MatrixSourcePtr source(std::shared_ptr<CacheFolder> in) const {
    return cached_source(open_layer(make_layer(made.files, made.info)), std::move(in));
  }

  struct Read {
    uint64_t from_source = 0;
    uint64_t from_cache = 0;
  };

  /// Reads and checks every row whose id is `rest` modulo `every`.
  Read read(const MatrixSource& cached, int64_t every = 1, int64_t rest = 0) const {
    const auto reader = cached.reader(columns);
    Read read;
    std::unique_ptr<UnitDecode> decode;
    for (uint32_t unit = 0; unit < cached.units().size(); ++unit) {
      std::vector<int64_t> rows;
      const auto& place = cached.units()[unit];
      for (int64_t row = place.row_begin; row < place.row_end; ++row) {
        if (row % every == rest) rows.push_back(row);
      }
      decode = reader->start(unit, rows, std::move(decode));
      decode->fetch();
      for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
        for (size_t task = 0; task < decode->task_count(phase); ++task) decode->run(phase, task);
      }
      for (uint32_t i = 0; i < rows.size(); ++i) {
        std::vector<std::byte> record(decode->packed_bytes(i));
        decode->pack(i, record.data());
        EXPECT_EQ(entries_of(record.data(), reader->row_layout()), expected(rows[i])) << rows[i];
        EXPECT_EQ(decode->nnz(i), expected(rows[i]).size());
      }
      read.from_source += decode->bytes_read();
      read.from_cache += decode->cached_bytes();
    }
    return read;
  }

  Entries expected(int64_t row) const {
    const auto found = made.rows.find(row);
    return found == made.rows.end() ? Entries{} : chosen(found->second, columns);
  }

  std::vector<std::filesystem::path> kept() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_folder.path())) {
      if (!entry.is_regular_file() || entry.path().filename() == kCacheRoomName) continue;
      files.push_back(entry.path());
    }
    return files;
  }
  uint64_t kept_bytes() const {
    uint64_t bytes = 0;
    for (const auto& path : kept()) bytes += std::filesystem::file_size(path);
    return bytes;
  }

  TemporaryFolder source_folder;
  TemporaryFolder cache_folder;
  PackedRows made;
  std::vector<int64_t> columns;
};

}  // namespace penstock::format::pack::testing
