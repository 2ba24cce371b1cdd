#pragma once

#include <penstock/data_type.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/tiledb/condition/delete_condition.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/schema/array_schema.h"

// Which cells the delete commits of an array hide. The rules come from
// tiledb/sm/query/query_condition.cc, readers/sparse_index_reader_base.cc and
// readers/reader_base.cc:
//
//   - The stored tree is the negation of what the user wrote: a cell for which it is false is
//     deleted. A comparison with a null cell, or with a field that the cell's fragment lacks, is
//     false whatever the comparison, so such cells are deleted too.
//   - Stored values of an enumerated attribute are codes of the attribute's own type.
//   - A commit at time T hides cells written at or before T: all cells of a fragment that starts by
//     then or, if the fragment has its own timestamps (t.tdb), the cells at or before T.
//   - A fragment with delete metadata lists the commits that dt.tdb already includes. They are
//     skipped, and a cell whose dt.tdb entry is at or before the time of reading is deleted.
//   - Deletes come after the choice of the newest among duplicates: an older cell does not
//     reappear.
//
//   DeleteFilter deletes = DeleteFilter::load(directory, schema);       // reads the .del objects
//   auto steps = deletes.for_fragment(*fragment);                       // cheap; once a fragment
//   for each tile: steps.apply(cells, timestamps, delete_timestamps, keep);
//
// Immutable after load; shared by threads. For a fragment with delete metadata, call
// load_processed_conditions before for_fragment.

namespace penstock::format::tiledb {

/// The decoded cells of one field of one tile, as views.
struct FieldCells {
  std::span<const std::byte> data;    ///< fixed-length values, or the bytes of variable ones
  std::span<const uint64_t> offsets;  ///< variable length: one start a cell and the end
  std::span<const uint8_t> validity;  ///< empty when the field is not nullable
  bool absent = false;                ///< the fragment has no such field
};

/// One stored tree bound to a schema. Throws `CorruptData` for values whose size does not fit the
/// field.
class KeepCondition {
 public:
  KeepCondition(const DeleteCondition& condition, const ArraySchema& schema);

  /// Distinct fields that the condition compares.
  const std::vector<std::string>& fields() const noexcept { return fields_; }

  /// Sets keep[i] to 1 where the tree is true. `cells` in the order of fields(); keep.size() cells.
  void evaluate(std::span<const FieldCells> cells, std::span<uint8_t> keep) const;

  struct Node;

 private:
  std::vector<std::string> fields_;
  std::shared_ptr<const Node> root_;
};

/// The deletes that apply to the cells of one fragment.
class FragmentDeletes {
 public:
  bool empty() const noexcept { return conditions_.empty() && !use_delete_timestamps_; }
  /// Fields whose cells `apply` needs, in that order.
  const std::vector<std::string>& fields() const noexcept { return fields_; }
  bool needs_timestamps() const noexcept { return needs_timestamps_; }              ///< t.tdb
  bool needs_delete_timestamps() const noexcept { return use_delete_timestamps_; }  ///< dt.tdb

  /// Clears keep[i] of deleted cells and leaves the others. `timestamps` and `delete_timestamps`
  /// may be empty if they are not needed. Safe from many threads.
  void apply(std::span<const FieldCells> cells, std::span<const uint64_t> timestamps,
             std::span<const uint64_t> delete_timestamps, std::span<uint8_t> keep) const;

 private:
  friend class DeleteFilter;
  struct Step {
    std::shared_ptr<const KeepCondition> condition;
    std::vector<size_t> field_places;    // index in fields_ of each field of the condition
    std::optional<uint64_t> only_up_to;  // compare the cell's timestamp with this
  };
  std::vector<std::string> fields_;
  std::vector<Step> conditions_;
  bool needs_timestamps_ = false;
  bool use_delete_timestamps_ = false;
  uint64_t read_time_ = std::numeric_limits<uint64_t>::max();
};

class DeleteFilter {
 public:
  DeleteFilter() = default;  ///< deletes nothing

  /// Reads the conditions of all delete commits of `directory`. `schema` is the array's newest.
  static DeleteFilter load(const ArrayDirectory& directory, const ArraySchema& schema);

  /// True when no commit is visible. A fragment may still have delete metadata.
  bool empty() const noexcept { return commits_.empty(); }
  FragmentDeletes for_fragment(const FragmentMetadata& fragment) const;

 private:
  struct Commit {
    std::string marker;
    uint64_t timestamp = 0;
    std::shared_ptr<const KeepCondition> condition;
  };
  std::vector<Commit> commits_;
  uint64_t read_time_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace penstock::format::tiledb
