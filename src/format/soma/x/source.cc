#include "format/soma/x/source.h"

#include "format/soma/x/array.h"
#include "format/soma/x/dense_array.h"
#include "format/soma/x/dense_reader.h"
#include "format/soma/x/reader.h"

namespace penstock::format::soma {
namespace {

template <typename Array, typename Reader>
class XSource final : public MatrixSource {
 public:
  explicit XSource(std::shared_ptr<const Array> array) : array_(std::move(array)) {}

  const MatrixInfo& info() const override { return array_->info(); }
  std::span<const plan::FetchUnit> units() const override { return array_->units(); }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const Reader>(array_, columns);
  }

 private:
  std::shared_ptr<const Array> array_;
};

}  // namespace

MatrixSourcePtr open_x_source(const io::StorePtr& store, const std::string& path,
                              tiledb::TimeRange range, unsigned threads) {
  const auto directory = tiledb::ArrayDirectory::load(store, path, range);
  const auto schema =
      tiledb::load_array_schema(*store, directory.schema_path(directory.latest_schema_name()));
  if (schema->dense()) {
    return std::make_shared<XSource<XDenseArray, XDenseReader>>(
        XDenseArray::load(store, path, range, threads));
  }
  return std::make_shared<XSource<XArray, XReader>>(XArray::load(store, path, range, threads));
}

}  // namespace penstock::format::soma
