#include "format/soma/x/source.h"

#include <string>
#include <utility>

#include "format/recent_readers.h"
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
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return readers_.get(columns, [&] { return std::make_shared<const Reader>(array_, columns); });
  }

 private:
  const std::shared_ptr<const Array> array_;
  const std::string content_;
  RecentReaders<Reader> readers_;
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
