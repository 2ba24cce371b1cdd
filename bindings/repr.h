#pragma once

// How an object of the engine looks at a prompt: penstock/display.py says, where the words for
// counts, sizes and types are.

#include <nanobind/nanobind.h>

namespace penstock::python {

/// What `function` of penstock.display makes of an object.
inline nanobind::object repr_by(const char* function, nanobind::handle object) {
  return nanobind::module_::import_("penstock.display").attr(function)(object);
}

}  // namespace penstock::python
