#include <penstock/error.h>
#include <penstock/resume.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash/hash64.h"
#include "base/hash/sha256.h"
#include "base/threads/cancellation.h"
#include "format/handle_access.h"
#include "plan/resume/segment_plan.h"

namespace penstock {
namespace {

RowSelection selected_rows(const Matrix& matrix, const LoaderOptions& options) {
  return options.rows ? *options.rows : RowSelection::range(0, matrix.shape().first);
}

uint64_t sampling_of(const LoaderOptions& options) { return OrderSettings::of(options).sampling; }

// --- fingerprints

/// As Python's json.dumps writes a string.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// The first 8 bytes, little-endian, of the SHA-256 of a text behind its length: what the Python
/// package computes.
uint64_t digest64(const std::string& text) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(text.size() >> (8 * i) & 0xff);
  const auto digest = sha256(bytes + text);
  uint64_t hash = 0;
  for (unsigned i = 0; i < 8; ++i) hash |= std::to_integer<uint64_t>(digest[i]) << (8 * i);
  return hash;
}

template <typename Numbers>
uint64_t hash_numbers(uint64_t hash, const Numbers& numbers) {
  hash = hash_combine(hash, numbers.size());
  for (const auto number : numbers) {
    if constexpr (std::is_same_v<std::decay_t<decltype(number)>, double>) {
      hash = hash_combine(hash, std::bit_cast<uint64_t>(number));
    } else {
      hash = hash_combine(hash, static_cast<uint64_t>(number));
    }
  }
  return hash;
}

template <typename Numbers>
uint64_t hash_shared(uint64_t hash, const std::shared_ptr<Numbers>& numbers) {
  return numbers == nullptr ? hash_combine(hash, 1) : hash_numbers(hash, *numbers);
}

uint64_t transforms_hash(const TransformPlan* plan) {
  if (plan == nullptr || plan->empty()) return 0;
  uint64_t hash = hash_combine(plan->steps.size(), plan->tokens ? 1 : 0);
  for (const TransformStep& step : plan->steps) {
    hash = hash_combine(hash, static_cast<uint64_t>(step.kind));
    hash = hash_numbers(hash, std::array{step.target, step.divisor, step.low, step.high});
    hash = hash_shared(hash, step.row_totals);
    hash = hash_shared(hash, step.scale);
    hash = hash_shared(hash, step.mean);
    hash = hash_shared(hash, step.places);
    hash = hash_combine(hash, step.columns);
  }
  if (!plan->tokens) return hash;
  const RankTokens& tokens = *plan->tokens;
  hash = hash_numbers(hash, std::array{tokens.target});
  hash = hash_numbers(hash, tokens.medians);
  hash = hash_numbers(hash, tokens.tokens);
  hash = hash_shared(hash, tokens.row_totals);
  return hash_numbers(
      hash, std::array{int64_t{tokens.max_tokens}, tokens.pad, int64_t{tokens.first.has_value()},
                       tokens.first.value_or(0), int64_t{tokens.last.has_value()},
                       tokens.last.value_or(0), static_cast<int64_t>(tokens.dtype)});
}

// --- what belongs to rows by position, for some of the rows

/// Calls `visit` with the position in `rows` of each row of `part`, which is a subset.
template <typename Visit>
void for_positions(const RowSelection& rows, const RowSelection& part, Visit&& visit) {
  constexpr uint64_t kAtOnce = 65536;
  std::vector<int64_t> joinids;
  for (uint64_t first = 0; first < part.size(); first += kAtOnce) {
    joinids.clear();
    part.copy_positions(first, std::min(kAtOnce, part.size() - first), joinids);
    for (const int64_t joinid : joinids) visit(rows.rank(joinid));
  }
}

TransformStep::Numbers numbers_of(const TransformStep::Numbers& numbers, const RowSelection& rows,
                                  const RowSelection& part) {
  if (numbers == nullptr) return nullptr;
  auto chosen = std::make_shared<std::vector<double>>();
  chosen->reserve(part.size());
  for_positions(rows, part, [&](uint64_t position) { chosen->push_back(numbers->at(position)); });
  return chosen;
}

std::shared_ptr<const TransformPlan> transforms_of(
    const std::shared_ptr<const TransformPlan>& transforms, const RowSelection& rows,
    const RowSelection& part) {
  if (transforms == nullptr) return nullptr;
  auto plan = std::make_shared<TransformPlan>(*transforms);
  for (TransformStep& step : plan->steps) {
    step.row_totals = numbers_of(step.row_totals, rows, part);
  }
  if (plan->tokens) plan->tokens->row_totals = numbers_of(plan->tokens->row_totals, rows, part);
  return plan;
}

RowWeights weights_of(const RowWeights& weights, const RowSelection& rows,
                      const RowSelection& part) {
  if (!weights) return weights;
  std::vector<uint64_t> all;
  weights.copy(0, weights.size(), all);
  std::vector<double> chosen;
  chosen.reserve(part.size());
  for_positions(rows, part, [&](uint64_t position) {
    chosen.push_back(static_cast<double>(all.at(position)));
  });
  return RowWeights::from_values(chosen);
}

LoaderOptions for_rows(LoaderOptions options, const RowSelection& rows, RowSelection part) {
  if (auto* drawn = std::get_if<RowSampling>(&options.order); drawn != nullptr) {
    drawn->weights = drawn->samples == 0 ? RowWeights() : weights_of(drawn->weights, rows, part);
  }
  options.transforms = transforms_of(options.transforms, rows, part);
  for (BatchPart& each : options.parts)
    each.transforms = transforms_of(each.transforms, rows, part);
  options.rows = std::move(part);
  return options;
}

}  // namespace

SelectionFingerprint SelectionFingerprint::of(const Matrix& matrix, const LoaderOptions& options) {
  SelectionFingerprint found;
  found.cells = selected_rows(matrix, options).fingerprint();
  found.genes = (options.columns ? RowSelection::from_sorted(*options.columns)
                                 : RowSelection::range(0, matrix.shape().second))
                    .fingerprint();
  found.layer =
      digest64("[" + json_text(matrix.measurement()) + ", " + json_text(matrix.layer()) + "]");
  found.transforms = transforms_hash(options.transforms.get());
  for (const BatchPart& part : options.parts) {
    found.transforms = hash_combine(found.transforms, static_cast<uint64_t>(part.column_end));
    found.transforms = hash_combine(found.transforms, transforms_hash(part.transforms.get()));
  }
  found.joined = HandleAccess::joined(matrix);
  return found;
}

RowsTaken rows_taken(const Matrix& matrix, const LoaderOptions& before, uint64_t epoch,
                     const ResumeSegment& segment) {
  LoaderOptions options = segment.order.apply_to(before);
  options.epoch = epoch;
  RowsTaken taken;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    for (options.worker = 0; options.worker < segment.active_workers; ++options.worker) {
      poll_wait_hook();  // Ctrl-C of an interpreter that waits
      options.first_batch =
          plan::batches_of_worker(segment.batches, options.worker, segment.active_workers);
      const Loader loader(matrix, options);
      plan::check_plan(segment, PlanFacts::of(loader), matrix.uri());
      taken.rows = taken.rows | loader.rows_before();
      taken.count += loader.row_count_before();
    }
  }
  return taken;
}

LoaderOptions what_is_left(const Matrix& matrix, LoaderOptions options, uint64_t epoch,
                           std::span<const ResumeSegment> segments) {
  const uint64_t sampling = sampling_of(options);
  for (const ResumeSegment& segment : segments) {
    if (segment.order.sampling != sampling) {
      throw InvalidArgument(
          "the state was saved in an epoch that draws other rows: use the same weights, "
          "replacement "
          "and number of samples");
    }
    const RowsTaken taken = rows_taken(matrix, options, epoch, segment);
    auto* drawn = std::get_if<RowSampling>(&options.order);
    if (drawn != nullptr) drawn->samples -= std::min(drawn->samples, taken.count);
    if (drawn == nullptr || !drawn->replacement) {
      const RowSelection rows = selected_rows(matrix, options);
      options = for_rows(std::move(options), rows, rows - taken.rows);
    }
  }
  return options;
}

// --- ResumableLoader

class ResumableLoader::Impl {
 public:
  Impl(const Matrix& matrix, LoaderOptions options, const ResumeState& saved)
      : run_(saved, options, options.num_workers > 1),
        loader_(matrix, run_.loader_options(what_is_left(matrix, std::move(options), saved.epoch,
                                                         run_.earlier()))) {
    run_.set_plan(PlanFacts::of(loader_), matrix.uri());
  }

  std::shared_ptr<const Batch> next() {
    auto batch = loader_.next();
    if (batch != nullptr) run_.count_batch();
    return batch;
  }

  EpochRun run_;
  Loader loader_;
};

namespace {

ResumeState start_of(const Matrix& matrix, const LoaderOptions& options) {
  ResumeState state;
  state.epoch = options.epoch;
  state.selection = SelectionFingerprint::of(matrix, options);
  return state;
}

const ResumeState& checked(const ResumeState& saved, const Matrix& matrix,
                           const LoaderOptions& options) {
  const std::string found = saved.selection.differences(SelectionFingerprint::of(matrix, options));
  if (!found.empty()) {
    throw InvalidArgument("the state is of another selection than this loader's: " + found);
  }
  saved.check_worker(options.worker, options.num_workers);
  return saved;
}

}  // namespace

ResumableLoader::ResumableLoader(Matrix matrix, LoaderOptions options)
    : ResumableLoader(matrix, options, start_of(matrix, options)) {}

ResumableLoader::ResumableLoader(Matrix matrix, LoaderOptions options, const ResumeState& saved)
    : impl_(std::make_unique<Impl>(matrix, options, checked(saved, matrix, options))) {}

ResumableLoader::~ResumableLoader() = default;
ResumableLoader::ResumableLoader(ResumableLoader&&) noexcept = default;
ResumableLoader& ResumableLoader::operator=(ResumableLoader&&) noexcept = default;

std::shared_ptr<const Batch> ResumableLoader::next() { return impl_->next(); }
uint64_t ResumableLoader::epoch() const noexcept { return impl_->run_.epoch(); }
const Loader& ResumableLoader::loader() const noexcept { return impl_->loader_; }

ResumeState ResumableLoader::state() const {
  ResumeState state = impl_->run_.state();
  if (!impl_->run_.finished()) return state;
  return {state.epoch + 1, state.selection, {}, std::nullopt, std::nullopt};
}

}  // namespace penstock
