#include <penstock/error.h>
#include <penstock/statistics.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "base/concat.h"
#include "base/threads/cancellation.h"
#include "base/threads/parallel.h"
#include "kernel/transform/moments.h"
#include "pipeline/batch/transformed_rows.h"
#include "pipeline/column_moments.h"

namespace penstock {
namespace {

/// Large enough for threads to be worth starting, small in the budget.
constexpr uint32_t kBatchRows = 512;
constexpr size_t kRowsATask = 64;
const std::atomic<bool> kNever{false};

LoaderOptions loader_options(const Matrix& matrix, const StatisticsOptions& options) {
  if (options.dtype != DataType::kFloat32 && options.dtype != DataType::kFloat64) {
    throw InvalidArgument("statistics are computed in float32 or float64, not " +
                          std::string(name_of(options.dtype)));
  }
  LoaderOptions loader;
  loader.rows = options.rows;
  loader.columns = options.columns;
  // Even an empty plan is needed: it sums repeated values of a column.
  loader.transforms =
      options.transforms != nullptr ? options.transforms : std::make_shared<const TransformPlan>();
  loader.dtype = options.dtype;
  loader.memory_budget = options.memory_budget;
  loader.threads = options.threads;
  loader.batch_size = kBatchRows;
  loader.order = StoredOrder{};
  loader.layout = BatchLayout::kCsr;
  loader.kept = options.kept;
  // What an epoch keeps of some rows, or in its own batches' memory, is left alone.
  if (!keeps_all_rows(matrix, loader)) loader.kept = nullptr;
  return loader.kept != nullptr ? divide_memory(matrix, loader) : loader;
}

std::vector<double> checked_upper(std::vector<double> upper, uint32_t group_count,
                                  uint32_t columns) {
  const uint64_t wanted = uint64_t{group_count} * columns;
  if (upper.empty() || upper.size() == wanted) return upper;
  throw InvalidArgument(concat(
      "upper must have one number for each group and column: ", upper.size(), " for ", wanted));
}

void check_groups(const StatisticsOptions& options, uint64_t rows) {
  if (options.chunk_rows == 0) throw InvalidArgument("chunk_rows must be 1 or more");
  if (!options.groups.empty() && options.groups.size() != rows) {
    throw InvalidArgument(
        concat("groups must have one number for each row: ", options.groups.size(), " for ", rows));
  }
  for (const uint32_t group : options.groups) {
    if (group >= options.group_count) {
      throw InvalidArgument(
          concat("a group must be less than group_count: ", group, " of ", options.group_count));
    }
  }
}

/// Sets the moments of one row of `columns` values.
template <typename T>
void add_row(const T* values, size_t count, uint32_t columns, size_t at, Moments& moments) {
  kernel::IntegerSums integers;
  kernel::RunningMoments fractions;
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!integers.add(value)) fractions.add(value);
  }
  auto all = kernel::moments_of(integers, int64_t{columns} - fractions.count);
  all.merge(fractions);
  moments.nonzeros[at] = integers.count + fractions.count;
  moments.total[at] =
      static_cast<double>(integers.sum) + fractions.mean * static_cast<double>(fractions.count);
  moments.squared_deviation[at] = all.squared_deviation;
}

}  // namespace

class StatisticsPass::Impl {
 public:
  Impl(const Matrix& matrix, StatisticsOptions given)
      : options(std::move(given)),
        loader(matrix, loader_options(matrix, options)),
        columns(
            pipeline::batch_shape(options.transforms.get(), stored_columns(matrix), options.dtype)
                .columns),
        column_moments(columns, options.by_column ? options.group_count : 0,
                       checked_upper(options.upper, options.group_count, columns)),
        group_sizes(options.group_count) {
    check_groups(options, loader.row_count());
    options.upper.clear();
    if (!options.by_row) return;
    row_moments.nonzeros.resize(loader.row_count());
    row_moments.total.resize(loader.row_count());
    row_moments.squared_deviation.resize(loader.row_count());
  }

  void add(const Batch& batch) {
    std::vector<uint32_t> groups;
    for (const int64_t position : batch.positions()) {
      if (!options.groups.empty()) groups.push_back(options.groups[static_cast<size_t>(position)]);
    }
    for (const uint32_t group : groups) ++group_sizes[group];
    if (groups.empty() && !group_sizes.empty()) group_sizes[0] += batch.rows();
    const size_t ranges = options.by_column ? column_moments.range_count() : 0;
    const size_t row_tasks = options.by_row ? (batch.rows() + kRowsATask - 1) / kRowsATask : 0;
    const CancelScope whole(&kNever);  // a batch half added would be counted wrongly for good
    for (uint32_t begin = 0; begin < batch.rows();) {
      // Up to the end of the chunk.
      const uint64_t left = options.chunk_rows - rows_done % options.chunk_rows;
      const auto end = static_cast<uint32_t>(std::min<uint64_t>(batch.rows(), begin + left));
      const size_t tasks = ranges + (begin == 0 ? row_tasks : 0);
      parallel_for(tasks, options.threads, [&](size_t task) {
        if (task < ranges) {
          column_moments.add(task, batch, begin, end, groups);
        } else {
          add_rows(batch, (task - ranges) * kRowsATask);
        }
      });
      rows_done += end - begin;
      if (end - begin == left) column_moments.end_chunk();
      begin = end;
    }
  }

  StatisticsOptions options;
  Loader loader;
  uint32_t columns;
  pipeline::ColumnMoments column_moments;
  Moments row_moments;
  std::vector<uint64_t> group_sizes;
  uint64_t rows_done = 0;

 private:
  uint32_t stored_columns(const Matrix& matrix) const {
    return static_cast<uint32_t>(options.columns ? options.columns->size()
                                                 : static_cast<size_t>(matrix.shape().second));
  }

  void add_rows(const Batch& batch, size_t begin) {
    const Batch::Csr csr = batch.csr();
    const size_t end = std::min<size_t>(batch.rows(), begin + kRowsATask);
    for (size_t row = begin; row < end; ++row) {
      const auto first = static_cast<size_t>(csr.indptr[row]);
      const size_t count = static_cast<size_t>(csr.indptr[row + 1]) - first;
      const auto at = static_cast<size_t>(batch.positions()[row]);
      if (batch.dtype() == DataType::kFloat32) {
        add_row(reinterpret_cast<const float*>(csr.data) + first, count, columns, at, row_moments);
      } else {
        add_row(reinterpret_cast<const double*>(csr.data) + first, count, columns, at, row_moments);
      }
    }
  }
};

StatisticsPass::StatisticsPass(const Matrix& matrix, StatisticsOptions options)
    : impl_(std::make_unique<Impl>(matrix, std::move(options))) {}

StatisticsPass::~StatisticsPass() = default;

bool StatisticsPass::advance(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left <= 0) return true;
    const Loader::NextBatch next = impl_->loader.next_for(left);
    if (next.timed_out) return true;
    if (next.batch == nullptr) return false;
    impl_->add(*next.batch);
  }
}

uint64_t StatisticsPass::rows_done() const noexcept { return impl_->rows_done; }

Moments StatisticsPass::columns() const {
  return impl_->column_moments.moments(impl_->group_sizes);
}

const Moments& StatisticsPass::rows() const noexcept { return impl_->row_moments; }

const std::vector<uint64_t>& StatisticsPass::group_sizes() const noexcept {
  return impl_->group_sizes;
}

uint32_t StatisticsPass::column_count() const noexcept { return impl_->columns; }

std::string StatisticsPass::sums() const { return impl_->column_moments.sums(); }

class StatisticsSum::Impl {
 public:
  Impl(uint32_t columns, uint32_t group_count, std::vector<double> upper)
      : moments(columns, group_count, checked_upper(std::move(upper), group_count, columns)),
        group_sizes(group_count) {}

  pipeline::ColumnMoments moments;
  std::vector<uint64_t> group_sizes;
};

StatisticsSum::StatisticsSum(uint32_t columns, uint32_t group_count, std::vector<double> upper)
    : impl_(std::make_unique<Impl>(columns, group_count, std::move(upper))) {}

StatisticsSum::~StatisticsSum() = default;

void StatisticsSum::add(std::string_view sums, std::span<const uint64_t> group_sizes,
                        std::span<const uint32_t> groups) {
  if (group_sizes.size() != groups.size()) {
    throw InvalidArgument(concat("each group must have a size: ", group_sizes.size(), " for ",
                                 groups.size(), " groups"));
  }
  impl_->moments.add_sums(sums, groups);
  for (size_t i = 0; i < groups.size(); ++i) impl_->group_sizes[groups[i]] += group_sizes[i];
}

Moments StatisticsSum::columns() const { return impl_->moments.moments(impl_->group_sizes); }

const std::vector<uint64_t>& StatisticsSum::group_sizes() const noexcept {
  return impl_->group_sizes;
}

}  // namespace penstock
