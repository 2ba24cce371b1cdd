#include <penstock/error.h>
#include <penstock/join.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/hash/hash64.h"
#include "format/handle_access.h"
#include "format/joined/source.h"
#include "format/stored_matrix.h"
#include "kernel/repack_row.h"

namespace penstock {
namespace {

using Parts = std::shared_ptr<const std::vector<JoinPart>>;

format::MatrixSourcePtr open_parts(const Parts& parts, int64_t column_count) {
  std::vector<format::JoinedPart> sources;
  for (const JoinPart& part : *parts) {
    sources.push_back({HandleAccess::source(part.matrix), part.row_offset, part.row_end,
                       part.columns, part.joined_columns});
  }
  return format::join_sources(std::move(sources), column_count);
}

/// Which layers were joined, where their rows are, and which columns are one.
uint64_t fingerprint(const std::vector<JoinPart>& parts) {
  uint64_t hash = hash_combine(parts.size(), 1);
  const auto add = [&hash](auto value) { hash = hash_combine(hash, static_cast<uint64_t>(value)); };
  const auto add_all = [&add](const auto& values) {
    add(values.size());
    for (const auto value : values) add(value);
  };
  for (const JoinPart& part : parts) {
    add_all(part.matrix.measurement());
    add_all(part.matrix.layer());
    add(part.row_offset);
    add(part.row_end);
    add_all(part.columns);
    add_all(part.joined_columns);
  }
  return hash;
}

std::optional<RowSelection> stored_rows(const Parts& parts) {
  RowSelection all;
  for (const JoinPart& part : *parts) {
    const RowSelection* rows = HandleAccess::stored_rows(part.matrix);
    if (rows == nullptr) return std::nullopt;
    all = all | (*rows & RowSelection::range(0, part.row_end)).shifted(part.row_offset);
  }
  return all;
}

}  // namespace

Matrix join_matrices(std::vector<JoinPart> parts, int64_t column_count) {
  if (parts.empty()) throw InvalidArgument("a joined matrix needs one part or more");
  const auto held = std::make_shared<const std::vector<JoinPart>>(std::move(parts));
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [held, column_count] { return open_parts(held, column_count); },
      [held] { return stored_rows(held); }});
  state->value_type = held->front().matrix.value_type();
  state->addresses_rows = true;
  for (const JoinPart& part : *held) {
    part.matrix.expect_rows();
    state->value_type = kernel::common_value_type(state->value_type, part.matrix.value_type());
    state->shape = {part.row_offset + part.row_end, column_count};
    state->addresses_rows = state->addresses_rows && part.matrix.addresses_rows();
    state->stored_bytes += part.matrix.stored_bytes();
    state->fragment_count += part.matrix.fragment_count();
    state->path += (state->path.empty() ? "" : " + ") + part.matrix.uri();
  }
  state->layout = std::to_string(held->size()) + " matrices joined";
  return HandleAccess::with_joined(HandleAccess::matrix(std::move(state)), fingerprint(*held));
}

}  // namespace penstock
