#pragma once

#include <penstock/error.h>
#include <penstock/table.h>

#include <cstddef>
#include <memory>

namespace penstock::python {

/// A column together with the table that owns it; cheap to copy.
struct TableColumn {
  std::shared_ptr<const Table> table;
  size_t index = 0;
  const Column& column() const { return table->columns[index]; }
};

}  // namespace penstock::python
