#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "format/handle_access.h"
#include "format/stored_matrix.h"
#include "pipeline/testing/memory_matrix.h"

// A MemoryMatrix as the public Matrix, for tests.

namespace penstock::pipeline::testing {

inline Matrix as_matrix(const std::shared_ptr<MemoryMatrix>& source) {
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [source]() -> format::MatrixSourcePtr { return source; }, [] { return std::nullopt; }});
  state->shape = {source->options().rows, source->options().columns};
  state->value_type = source->info().value_type;
  state->path = "memory";
  return HandleAccess::matrix(std::move(state));
}

}  // namespace penstock::pipeline::testing
