#pragma once

// The repr of an engine object, as made by penstock/experiment/reprs.py.

#include <nanobind/nanobind.h>

namespace penstock::python {

/// Result of `function` of penstock.experiment.reprs for an object.
inline nanobind::object repr_by(const char* function, nanobind::handle object) {
  return nanobind::module_::import_("penstock.experiment.reprs").attr(function)(object);
}

}  // namespace penstock::python
