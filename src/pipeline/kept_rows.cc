#include <penstock/experiment.h>
#include <penstock/kept_rows.h>
#include <penstock/loader.h>

#include <utility>
#include <variant>

#include "format/handle_access.h"
#include "pipeline/stream/epoch_setup.h"

namespace penstock {

class KeptRows::Impl {
 public:
  const std::shared_ptr<format::KeepStore> store = std::make_shared<format::KeepStore>();
};

const std::shared_ptr<format::KeepStore>& HandleAccess::store(const KeptRows& kept) {
  return kept.impl_->store;
}

KeptRows::KeptRows() : impl_(std::make_unique<Impl>()) {}
KeptRows::~KeptRows() = default;

uint64_t KeptRows::rows() const { return impl_->store->row_count(); }
uint64_t KeptRows::packed_rows() const {
  return impl_->store->row_count(format::KeptForm::kPacked);
}
uint64_t KeptRows::bytes() const { return impl_->store->bytes(); }
void KeptRows::clear() { impl_->store->clear(); }

bool keeps_all_rows(const Matrix& matrix, const LoaderOptions& options) {
  if (!pipeline::may_keep(*HandleAccess::source(matrix), options)) return false;
  return pipeline::make_epoch_setup(HandleAccess::source(matrix), options).budget.keep_room != 0;
}

LoaderOptions divide_memory(const Matrix& matrix, LoaderOptions options) {
  if (!pipeline::may_keep(*HandleAccess::source(matrix), options)) return options;
  if (std::holds_alternative<GlobalShuffle>(options.order)) return options;
  const uint64_t kept = pipeline::memory_for_part_of_rows(HandleAccess::source(matrix), options);
  options.memory_budget -= kept;
  options.kept_memory = kept;
  return options;
}

}  // namespace penstock
