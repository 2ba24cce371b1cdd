#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "format/matrix_source.h"

// What MatrixReader::start checks and recycles, in every format that reads units of its own.

namespace penstock::format {

/// Throws InvalidArgument unless there is such a unit, and `rows` ascend strictly within it.
void check_unit_rows(std::span<const plan::FetchUnit> units, uint32_t unit,
                     std::span<const int64_t> rows);

/// `recycled` for this reader if it is a decode of this kind, else a new one.
template <typename Decode, typename Reader>
std::unique_ptr<Decode> recycle_or_make(std::unique_ptr<UnitDecode> recycled,
                                        std::shared_ptr<const Reader> reader) {
  auto* const own = dynamic_cast<Decode*>(recycled.get());
  if (own == nullptr) return std::make_unique<Decode>(std::move(reader));
  recycled.release();
  own->set_reader(std::move(reader));
  return std::unique_ptr<Decode>(own);
}

}  // namespace penstock::format
