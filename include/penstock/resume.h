#pragma once

#include <penstock/data_type.h>
#include <penstock/experiment.h>
#include <penstock/loader.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Saves the position in an epoch and resumes from it. With the same settings, the order is the same
// bit for bit. With other settings or another number of ranks, each remaining row comes exactly
// once.
//
//   ResumableLoader loader(matrix, options);                       // or (matrix, options, saved)
//   while (auto batch = loader.next()) {
//     train(*batch);
//     save(loader.state().to_json());
//   }
//
// docs/design/0004 describes how it works. examples/cpp/resume_cells.cpp is a program that can be
// killed at any moment.

namespace penstock {

/// All settings that the order of an epoch and its batches depend on, except the rows, the rank and
/// the worker.
struct OrderSettings {
  uint32_t world_size = 1;
  uint32_t num_workers = 1;
  uint32_t batch_size = 128;
  bool shuffle = true;
  uint64_t seed = 0;
  uint64_t memory_budget = 0;  ///< 0 for a global shuffle, whose order does not depend on it
  bool sparse = true;          ///< BatchLayout::kCsr
  DataType dtype = DataType::kFloat32;
  bool drop_last = false;
  uint32_t min_batch = 1;
  UnevenRows uneven = UnevenRows::kDrop;
  uint64_t sampling = 0;    ///< RowSampling::fingerprint(); 0 if every row comes once
  uint32_t chunk_size = 0;  ///< of ChunkShuffle, else 0
  uint32_t chunks_per_block = 0;
  bool global_shuffle = false;
  uint64_t kept_memory = 0;  ///< LoaderOptions::kept_memory; 0 for a global shuffle

  static OrderSettings of(const LoaderOptions& options);
  /// `now` with these settings instead of its own, except RowSampling. Throws InvalidArgument for
  /// settings that ResumeState::from_json would refuse, such as a global shuffle of chunks.
  LoaderOptions apply_to(LoaderOptions now) const;
  /// Whether all settings are equal that ranks must share: all except memory_budget, kept_memory,
  /// num_workers, sparse and dtype.
  bool same_for_ranks(const OrderSettings& other) const;
  bool operator==(const OrderSettings&) const = default;
};

/// Batches of an epoch that were read in one order, the same number on every rank.
struct ResumeSegment {
  OrderSettings order;
  uint64_t plan = 0;            ///< Loader::fingerprint()
  uint32_t active_workers = 1;  ///< Loader::active_workers()
  uint64_t batches = 0;         ///< of one rank, all workers together

  bool operator==(const ResumeSegment&) const = default;
};

/// 64-bit hashes of all that the values of a batch depend on, the same on every machine.
///
/// The location of the stored cells is not included, so a copy elsewhere has the same hashes.
struct SelectionFingerprint {
  uint64_t cells = 0;
  uint64_t genes = 0;
  uint64_t layer = 0;  ///< names of the measurement and the layer
  uint64_t transforms = 0;
  uint64_t joined = 0;  ///< the experiments and how their genes are matched; 0 for one experiment

  static SelectionFingerprint of(const Matrix& matrix, const LoaderOptions& options);
  /// Description of the differences, such as "other cells and other genes"; empty if equal.
  std::string differences(const SelectionFingerprint& other) const;
  bool operator==(const SelectionFingerprint&) const = default;
};

/// Position in an epoch: one segment for each order that was used. The same on every rank.
struct ResumeState {
  uint64_t epoch = 0;
  SelectionFingerprint selection;
  std::vector<ResumeSegment> segments;  ///< none: at the start of the epoch
  /// Set if one of several workers of a rank saved the state: its number, and that of the worker
  /// whose batches it reads. The segments then count only its batches.
  std::optional<uint32_t> worker, as_worker;

  /// Version 1 of the format, which Dataset.state_dict of the Python package also writes. Either
  /// language reads the other's states, unless there are transforms or joined experiments. Throws
  /// InvalidArgument for a state that from_json would refuse.
  std::string to_json() const;
  /// Throws InvalidArgument, which names the field, for text that is no state. Fields of later
  /// versions may be absent; unknown ones are ignored.
  static ResumeState from_json(std::string_view text);

  /// Throws InvalidArgument if the state is of another worker or of another number of workers.
  void check_worker(uint32_t this_worker, uint32_t num_workers) const;
  bool operator==(const ResumeState&) const = default;
};

/// Facts of a loader's plan.
struct PlanFacts {
  uint64_t fingerprint = 0;
  uint32_t active_workers = 1;
  uint64_t size = 0;

  static PlanFacts of(const Loader& loader) {
    return {loader.fingerprint(), loader.active_workers(), loader.size()};
  }
};

/// Progress of this process in an epoch: where it started, and how many batches were taken since.
///
///   EpochRun run(state, options);
///   LoaderOptions left = run.earlier().empty() ? options : what_is_left(matrix, options, …);
///   Loader loader(matrix, run.loader_options(left));
///   run.set_plan(PlanFacts::of(loader), matrix.uri());
///   while (auto batch = loader.next()) run.count_batch();
///
/// ResumableLoader does that.
class EpochRun {
 public:
  /// Starts `state.epoch` at `state`. `options` are those of a whole epoch, with the rank and the
  /// worker of this process. `is_worker`: each worker of a rank counts its own batches and saves
  /// its own state. Throws InvalidArgument if this worker cannot resume from the state.
  EpochRun(const ResumeState& state, const LoaderOptions& options, bool is_worker = false);

  uint64_t epoch() const noexcept { return epoch_; }
  const OrderSettings& order() const noexcept { return order_; }
  /// Segments that were read in other orders; `what_is_left` of the epoch is read in this order.
  const std::vector<ResumeSegment>& earlier() const noexcept { return earlier_; }

  /// `left`, changed to start at the next batch.
  LoaderOptions loader_options(LoaderOptions left) const;
  /// Sets the plan, or checks that it is the plan of the state. Throws InvalidArgument, which names
  /// `stored`, if the stored data have changed.
  void set_plan(const PlanFacts& plan, std::string_view stored);
  void count_batch() noexcept { ++batches_; }

  uint64_t batches() const noexcept { return batches_; }  ///< taken in this order
  std::optional<uint64_t> size() const noexcept { return size_; }
  bool finished() const noexcept { return size_ == batches_; }
  uint32_t as_worker() const noexcept { return as_worker_; }
  ResumeState state() const;

 private:
  uint64_t epoch_ = 0;
  SelectionFingerprint selection_;
  std::vector<ResumeSegment> earlier_;
  OrderSettings order_;
  std::optional<uint32_t> worker_;
  uint32_t as_worker_ = 0;  ///< the worker whose batches this process reads
  uint64_t plan_ = 0;
  uint32_t active_workers_ = 1;
  uint64_t batches_ = 0;
  std::optional<uint64_t> size_;
};

/// Rows that all ranks and workers have returned in a segment.
struct RowsTaken {
  RowSelection rows;
  uint64_t count = 0;  ///< a row that was drawn twice counts twice
};

/// Plans the segment again for each rank and worker, without reading. `before` are the options of
/// the rows that were left when the segment started. Throws InvalidArgument if other rows were
/// drawn then, or if the stored data have changed.
RowsTaken rows_taken(const Matrix& matrix, const LoaderOptions& before, uint64_t epoch,
                     const ResumeSegment& segment);

/// `options` for the remaining draws and the rows that no rank has returned in the segments.
/// Weights and totals by position become those of the remaining rows. Throws as rows_taken does.
LoaderOptions what_is_left(const Matrix& matrix, LoaderOptions options, uint64_t epoch,
                           std::span<const ResumeSegment> segments);

/// A loader of one epoch, or of the rest of one, whose position can be saved.
class ResumableLoader {
 public:
  /// Reads `options.epoch` from its start. Throws as Loader does.
  ResumableLoader(Matrix matrix, LoaderOptions options);
  /// Resumes `saved.epoch` at its position. Also throws InvalidArgument for a state of other rows,
  /// columns or values, and if the stored data have changed.
  ResumableLoader(Matrix matrix, LoaderOptions options, const ResumeState& saved);
  ~ResumableLoader();
  ResumableLoader(ResumableLoader&&) noexcept;
  ResumableLoader& operator=(ResumableLoader&&) noexcept;

  /// As Loader::next. A batch that was returned counts as taken.
  std::shared_ptr<const Batch> next();
  /// Position in the epoch, or the start of the next epoch once every batch was taken. With
  /// num_workers above 1, the state is of this worker only. It resumes in the same worker of the
  /// same number of workers.
  ResumeState state() const;
  uint64_t epoch() const noexcept;
  const Loader& loader() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
