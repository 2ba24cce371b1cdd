#include <penstock/beside.h>
#include <penstock/error.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/concat.h"
#include "base/hash/hash64.h"
#include "format/beside/source.h"
#include "format/handle_access.h"
#include "format/stored_matrix.h"
#include "kernel/repack_row.h"

namespace penstock {
namespace {

using Parts = std::shared_ptr<const std::vector<Matrix>>;

format::MatrixSourcePtr open_parts(const Parts& parts) {
  std::vector<format::MatrixSourcePtr> sources;
  for (const Matrix& part : *parts) sources.push_back(HandleAccess::source(part));
  return format::put_beside(std::move(sources));
}

std::optional<RowSelection> stored_rows(const Parts& parts) {
  RowSelection all;
  for (const Matrix& part : *parts) {
    const RowSelection* rows = HandleAccess::stored_rows(part);
    if (rows == nullptr) return std::nullopt;
    all = all | *rows;
  }
  return all;
}

/// Which layers stand where.
uint64_t fingerprint(const std::vector<Matrix>& parts) {
  uint64_t hash = hash_combine(parts.size(), 2);
  const auto add = [&hash](auto value) { hash = hash_combine(hash, static_cast<uint64_t>(value)); };
  for (const Matrix& part : parts) {
    for (const std::string& text : {part.measurement(), part.layer()}) {
      add(text.size());
      for (const char letter : text) add(letter);
    }
    add(part.shape().second);
    add(HandleAccess::joined(part));
  }
  return hash;
}

}  // namespace

Matrix beside(std::vector<Matrix> matrices) {
  if (matrices.empty()) {
    throw InvalidArgument("matrices beside one another: one or more are needed");
  }
  const auto held = std::make_shared<const std::vector<Matrix>>(std::move(matrices));
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [held] { return open_parts(held); }, [held] { return stored_rows(held); }});
  state->value_type = held->front().value_type();
  state->addresses_rows = true;
  for (const Matrix& part : *held) {
    part.expect_rows();
    const auto [rows, columns] = part.shape();
    if (columns > std::numeric_limits<int32_t>::max() - state->shape.second) {
      throw InvalidArgument(concat("matrices beside one another have too many columns: ",
                                   state->shape.second, " and ", columns, " more of ", part.uri()));
    }
    state->value_type = kernel::common_value_type(state->value_type, part.value_type());
    state->shape = {std::max(state->shape.first, rows), state->shape.second + columns};
    state->addresses_rows = state->addresses_rows && part.addresses_rows();
    state->stored_bytes += part.stored_bytes();
    state->fragment_count += part.fragment_count();
    state->path += (state->path.empty() ? "" : " + ") + part.uri();
  }
  state->layout = concat(held->size(), " matrices beside one another");
  return HandleAccess::with_joined(HandleAccess::matrix(std::move(state)), fingerprint(*held));
}

}  // namespace penstock
