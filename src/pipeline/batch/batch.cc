#include <penstock/error.h>
#include <penstock/loader.h>

namespace penstock {
namespace {

void check_has_arrays(const Batch& batch) {
  if (batch.part_count() != 0) {
    throw InvalidArgument("the loader was made with parts; read the arrays of Batch::part");
  }
}

}  // namespace

Batch::~Batch() = default;

Batch::Csr Batch::csr() const {
  check_has_arrays(*this);
  if (layout_ != BatchLayout::kCsr) {
    throw InvalidArgument("csr() of a dense batch; the loader was made with layout dense");
  }
  return {indptr_, indices_, values_};
}

const std::byte* Batch::dense() const {
  check_has_arrays(*this);
  if (layout_ != BatchLayout::kDense) {
    throw InvalidArgument("dense() of a CSR batch; the loader was made with layout csr");
  }
  return values_;
}

}  // namespace penstock
