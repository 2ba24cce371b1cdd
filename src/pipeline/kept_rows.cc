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
  return pipeline::budget_that_keeps_all(HandleAccess::source(matrix), options) != 0;
}

LoaderOptions divide_memory(const Matrix& matrix, LoaderOptions options) {
  if (!pipeline::may_keep(*HandleAccess::source(matrix), options)) return options;
  if (options.kept_memory != 0) return options;
  const format::MatrixSourcePtr& source = HandleAccess::source(matrix);
  const bool global = std::holds_alternative<GlobalShuffle>(options.order);
  // A global order does not depend on memory. What was kept with all of it is used with all of it.
  if (global && options.kept->rows() != 0) return options;
  if (const uint64_t enough = pipeline::budget_that_keeps_all(source, options); enough != 0) {
    options.memory_budget = enough;
    return options;
  }
  if (global) return options;
  const uint64_t kept = pipeline::memory_for_part_of_rows(source, options);
  options.memory_budget -= kept;
  options.kept_memory = kept;
  return options;
}

}  // namespace penstock
