#include <penstock/error.h>
#include <penstock/loader.h>

namespace penstock {

Batch::~Batch() = default;

Batch::Csr Batch::csr() const {
  if (layout_ != BatchLayout::kCsr) {
    throw InvalidArgument("csr() of a dense batch; the loader was made with layout dense");
  }
  return {indptr_, indices_, values_};
}

const std::byte* Batch::dense() const {
  if (layout_ != BatchLayout::kDense) {
    throw InvalidArgument("dense() of a CSR batch; the loader was made with layout csr");
  }
  return values_;
}

}  // namespace penstock
