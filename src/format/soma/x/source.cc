#include "format/soma/x/source.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/threads/mutex.h"
#include "format/soma/x/array.h"
#include "format/soma/x/dense/dense_array.h"
#include "format/soma/x/dense/dense_reader.h"
#include "format/soma/x/reader.h"
#include "format/tiledb/directory/array_content.h"

namespace penstock::format::soma {
namespace {

template <typename Array, typename Reader>
class XSource final : public MatrixSource {
 public:
  XSource(std::shared_ptr<const Array> array, std::string content)
      : array_(std::move(array)), content_(std::move(content)) {}

  const MatrixInfo& info() const override { return array_->info(); }
  std::span<const plan::FetchUnit> units() const override { return array_->units(); }
  std::string content() const override {
    return content_ + std::to_string(info().stored_cells) + " cells, " +
           std::to_string(info().stored_bytes) + " bytes\n";
  }
  /// The next epoch has the same reader, so that it does not measure the store again. A forked
  /// child makes its own: a lock of the parent's may be held for ever.
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    if (process_id_ != ::getpid()) return std::make_shared<const Reader>(array_, columns);
    if (auto same = recent(columns)) return same;
    auto made = std::make_shared<const Reader>(array_, columns);
    const MutexLock lock(mutex_);
    std::swap(recent_.front(), recent_.back());
    recent_.front() = made;
    return made;
  }

 private:
  std::shared_ptr<const Reader> recent(std::span<const int64_t> columns) const {
    const MutexLock lock(mutex_);
    for (const auto& reader : recent_) {
      if (reader != nullptr && std::ranges::equal(reader->columns(), columns)) return reader;
    }
    return nullptr;
  }

  const std::shared_ptr<const Array> array_;
  const std::string content_;
  const int process_id_ = ::getpid();
  mutable Mutex mutex_;
  /// Two, since a cache reads all columns beside the chosen ones.
  mutable std::array<std::shared_ptr<const Reader>, 2> recent_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace

MatrixSourcePtr open_x_source(const io::StorePtr& store, const std::string& path,
                              tiledb::TimeRange range, unsigned threads) {
  const auto directory = tiledb::ArrayDirectory::load(store, path, range);
  const auto schema =
      tiledb::load_array_schema(*store, directory.schema_path(directory.latest_schema_name()));
  if (schema->dense()) {
    return std::make_shared<XSource<XDenseArray, XDenseReader>>(
        XDenseArray::load(store, path, range, threads), tiledb::content_text(directory, true));
  }
  return std::make_shared<XSource<XArray, XReader>>(XArray::load(store, path, range, threads),
                                                    tiledb::content_text(directory, false));
}

}  // namespace penstock::format::soma
