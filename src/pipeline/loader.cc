#include <penstock/error.h>
#include <penstock/experiment.h>
#include <penstock/loader.h>

#include <utility>

#include "format/handle_access.h"
#include "pipeline/stream/make_stream.h"

namespace penstock {

class Loader::Impl {
 public:
  explicit Impl(std::unique_ptr<pipeline::BatchStream> stream) : stream_(std::move(stream)) {}
  pipeline::BatchStream* operator->() const noexcept { return stream_.get(); }
  void leak() noexcept { static_cast<void>(stream_.release()); }

 private:
  std::unique_ptr<pipeline::BatchStream> stream_;
};

namespace {

/// If the selection leaves rows out, the plan must know which rows exist.
LoaderOptions with_stored_rows(const Matrix& matrix, LoaderOptions options) {
  if (options.stored_rows || !options.rows || options.rows->empty()) return options;
  const RowSelection& rows = *options.rows;
  const int64_t span = rows.at(rows.size() - 1) - rows.at(0) + 1;
  if (static_cast<uint64_t>(span) == rows.size()) return options;
  if (const RowSelection* stored = HandleAccess::stored_rows(matrix)) options.stored_rows = *stored;
  return options;
}

}  // namespace

Loader::Loader(const Matrix& matrix, LoaderOptions options)
    : impl_(std::make_unique<Impl>(pipeline::make_stream(
          HandleAccess::source(matrix), with_stored_rows(matrix, std::move(options))))) {}

Loader::~Loader() {
  // In a forked child the threads do not exist and locks may be held, so nothing can be freed.
  if (impl_ != nullptr && (*impl_)->in_other_process()) impl_->leak();
}

Loader::Loader(Loader&&) noexcept = default;

Loader& Loader::operator=(Loader&& other) noexcept {
  if (this != &other) {
    Loader old(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

uint64_t Loader::size() const { return (*impl_)->size(); }
uint64_t Loader::row_count() const { return (*impl_)->row_count(); }
uint64_t Loader::fingerprint() const { return (*impl_)->fingerprint(); }

uint32_t Loader::active_workers() const { return (*impl_)->active_workers(); }
RowSelection Loader::rows_before() const { return (*impl_)->rows_before(); }
uint64_t Loader::row_count_before() const { return (*impl_)->row_count_before(); }

Loader::LabelEntropy Loader::label_entropy(std::span<const uint32_t> labels) const {
  auto entropy = (*impl_)->batch_entropy(labels);
  return {std::move(entropy.bits), std::move(entropy.label_rows)};
}

std::shared_ptr<const Batch> Loader::next() { return (*impl_)->next(); }

Loader::NextBatch Loader::next_for(double timeout_seconds) {
  return (*impl_)->next_for(timeout_seconds < 0 ? 0 : timeout_seconds);
}

bool Loader::ready() const { return (*impl_)->ready(); }

void Loader::cancel() noexcept { (*impl_)->cancel(); }

LoaderStats Loader::stats() const { return (*impl_)->stats(); }
LoaderStats Loader::counts() const { return (*impl_)->counts(); }

}  // namespace penstock
