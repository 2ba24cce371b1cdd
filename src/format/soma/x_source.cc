#include "format/soma/x_source.h"

#include "format/soma/x_array.h"
#include "format/soma/x_reader.h"

namespace penstock::format::soma {
namespace {

class XSource final : public MatrixSource {
 public:
  explicit XSource(std::shared_ptr<const XArray> array) : array_(std::move(array)) {}

  const MatrixInfo& info() const override { return array_->info(); }
  std::span<const plan::FetchUnit> units() const override { return array_->units(); }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> columns) const override {
    return std::make_shared<const XReader>(array_, columns);
  }

 private:
  std::shared_ptr<const XArray> array_;
};

}  // namespace

MatrixSourcePtr open_x_source(const io::StorePtr& store, const std::string& path,
                              tiledb::TimeRange range, unsigned threads) {
  return std::make_shared<XSource>(XArray::load(store, path, range, threads));
}

}  // namespace penstock::format::soma
