#include "format/cache/cached_source.h"

#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "format/cache/cached_decode.h"
#include "format/cache/cached_rows.h"
#include "format/pack/packed_layer.h"

namespace penstock::format::pack {
namespace {

/// If the domain has no end, columns from this id on are never kept.
constexpr int64_t kMostColumns = std::numeric_limits<int32_t>::max();
/// Part of the key: a new text makes all kept files unknown.
constexpr std::string_view kCacheFormat = "penstock cache 1\n";
/// Upper bound, nearly always, of record bytes for each non-zero.
constexpr double kRecordBytes = 1.5;

class CachedSource final : public MatrixSource {
 public:
  CachedSource(MatrixSourcePtr source, std::shared_ptr<CacheFolder> folder)
      : source_(std::move(source)), folder_(std::move(folder)), info_(source_->info()) {}

  const MatrixInfo& info() const override { return info_; }
  std::span<const plan::FetchUnit> units() const override { return source_->units(); }
  std::string content() const override { return source_->content(); }

  bool is_cached(const RowSelection& rows) const override {
    if (info_.column_domain_end <= kMostColumns)
      return contains_all(*cache_of(info_columns()), rows);
    std::shared_ptr<UnitCache> cache;
    {
      const MutexLock lock(mutex_);
      cache = cache_;
    }
    return cache != nullptr && contains_all(*cache, rows);
  }

  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    const uint64_t stored = stored_columns(columns);
    return std::make_shared<const CachedReader>(source_, cache_of(stored), stored, columns);
  }

 private:
  uint64_t info_columns() const { return static_cast<uint64_t>(info_.column_domain_end); }

  bool contains_all(UnitCache& cache, const RowSelection& rows) const {
    std::vector<int64_t> wanted;
    for (const plan::FetchUnit& unit : units()) {
      wanted.clear();
      rows.copy_range(unit.row_begin, unit.row_end, wanted);
      if (!wanted.empty() && cache.find(unit, wanted) == nullptr) return false;
    }
    return true;
  }

  /// Number of columns to keep: all, or up to the largest one ever chosen if the domain has no end.
  uint64_t stored_columns(std::span<const int64_t> columns) const {
    if (info_.column_domain_end <= kMostColumns) return info_columns();
    const int64_t end = columns.empty() ? 0 : columns.back() + 1;
    if (end > kMostColumns) {
      throw Unsupported(concat("columns too high for a cache: ", end - 1));
    }
    // Rounded up, so that different choices of genes share the kept files.
    constexpr int64_t kStep = 65536;
    return static_cast<uint64_t>((end + kStep - 1) / kStep * kStep);
  }

  std::shared_ptr<UnitCache> cache_of(uint64_t stored) const {
    const MutexLock lock(mutex_);
    if (cache_ == nullptr || cached_columns_ != stored) {
      RowFileFacts facts;
      facts.key = content_key(std::string(kCacheFormat) + std::to_string(stored) + " columns\n" +
                              source_->content());
      facts.column_count = stored;
      facts.value_type = info_.value_type;
      cache_ = std::make_shared<UnitCache>(folder_, facts);
      cached_columns_ = stored;
    }
    return cache_;
  }

  MatrixSourcePtr source_;
  std::shared_ptr<CacheFolder> folder_;
  MatrixInfo info_;
  mutable Mutex mutex_;
  mutable std::shared_ptr<UnitCache> cache_ PENSTOCK_GUARDED_BY(mutex_);
  mutable uint64_t cached_columns_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

std::vector<int64_t> every_column(uint64_t count) {
  std::vector<int64_t> columns(count);
  std::iota(columns.begin(), columns.end(), int64_t{0});
  return columns;
}

}  // namespace

MatrixSourcePtr cached_source(MatrixSourcePtr source, std::shared_ptr<CacheFolder> folder) {
  if (source->content().empty()) {
    throw Unsupported(
        "the cache cannot tell whether this matrix changes, because its store gives no versions of "
        "objects, as web servers do not; leave cache_dir out, or make a pack with `penstock pack` "
        "and read that");
  }
  return std::make_shared<const CachedSource>(std::move(source), std::move(folder));
}

CachedReader::CachedReader(MatrixSourcePtr source, std::shared_ptr<UnitCache> cache,
                           uint64_t stored_columns, std::span<const int64_t> columns)
    : source_(std::move(source)),
      cache_(std::move(cache)),
      stored_columns_(stored_columns),
      columns_(columns.begin(), columns.end()),
      all_(source_->reader(every_column(stored_columns))),
      chosen_(source_->reader(columns)),
      unpacker_(stored_columns, source_->info().column_domain_end, source_->info().value_type,
                columns) {}

std::unique_ptr<UnitDecode> CachedReader::start(uint32_t unit, std::vector<int64_t> rows,
                                                std::unique_ptr<UnitDecode> recycled) const {
  if (unit >= source_->units().size()) {
    throw InvalidArgument(concat("no fetch unit ", unit));
  }
  std::unique_ptr<CachedDecode> decode;
  if (auto* own = dynamic_cast<CachedDecode*>(recycled.get());
      own != nullptr && own->reader() == this) {
    recycled.release();
    decode.reset(own);
  } else {
    decode = std::make_unique<CachedDecode>(shared_from_this());
  }
  decode->start(unit, std::move(rows));
  return decode;
}

uint64_t CachedReader::in_flight_bytes(uint32_t unit) const {
  const plan::FetchUnit& place = source_->units()[unit];
  const auto cells = static_cast<double>(place.cell_bound);
  const double staged = cells * (kRecordBytes * 2 + packed_bytes_per_cell_of(unit) * 1.5);
  return all_->in_flight_bytes(unit) + static_cast<uint64_t>(staged);
}

uint64_t CachedReader::fetched_bytes(uint32_t unit) const {
  const auto cells = static_cast<double>(source_->units()[unit].cell_bound);
  return all_->fetched_bytes(unit) + static_cast<uint64_t>(cells * kRecordBytes);
}

EncodedRows CachedReader::refill(uint32_t unit, const std::vector<int64_t>& rows) const {
  DecodePool pool;
  EncodedRows encoded = encode_unit(*all_, stored_columns_, unit, rows, pool);
  cache_->keep(source_->units()[unit], encoded);
  return encoded;
}

RowReaderPtr CachedReader::row_reader(const RowSelection& rows) const {
  const auto units = source_->units();
  std::vector<std::shared_ptr<const RowFile>> files;
  std::vector<int64_t> wanted;
  for (const plan::FetchUnit& unit : units) {
    wanted.clear();
    rows.copy_range(unit.row_begin, unit.row_end, wanted);
    if (wanted.empty()) continue;
    auto file = cache_->find(unit, wanted);
    if (file == nullptr) return nullptr;
    CacheFolder::touch(file->path());
    files.push_back(std::move(file));
  }
  return std::make_shared<const CachedRowReader>(
      shared_from_this(), make_layer(std::move(files), source_->info()), columns_, rows);
}

}  // namespace penstock::format::pack
