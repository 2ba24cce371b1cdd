#include <utility>

#include "base/threads/lazy.h"
#include "format/csc/csc_array.h"
#include "format/csc/csc_bands.h"

namespace penstock::format {
namespace {

class CscSource final : public MatrixSource {
 public:
  explicit CscSource(std::shared_ptr<const CscArray> array) : array_(std::move(array)) {}

  const MatrixInfo& info() const override { return array_->info(); }
  std::span<const plan::FetchUnit> units() const override { return {}; }
  std::string content() const override {
    return content_.get([&] { return array_->content(); });
  }
  std::unique_ptr<RowBands> row_bands(const RowSelection& rows,
                                      const RowBandOptions& options) const override {
    auto array = array_;
    if (const uint64_t least = CscBands::least_budget(*array_); least > options.memory_budget) {
      // Chunks that are too large may be decoded a piece at a time.
      auto in_order = array_->in_order();
      if (in_order && CscBands::least_budget(*in_order) < least) array = std::move(in_order);
    }
    return std::make_unique<CscBands>(std::move(array), rows, options);
  }
  std::shared_ptr<const MatrixReader> reader(std::span<const int64_t> /*columns*/) const override {
    refuse_stored_by_columns(array_->path());
  }

 private:
  const std::shared_ptr<const CscArray> array_;
  Lazy<std::string> content_;
};

}  // namespace

MatrixSourcePtr make_csc_source(std::shared_ptr<const CscArray> array) {
  return std::make_shared<const CscSource>(std::move(array));
}

}  // namespace penstock::format
