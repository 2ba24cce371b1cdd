#pragma once

// How an object of the engine looks at a prompt: penstock/experiment/reprs.py says.

#include <nanobind/nanobind.h>

namespace penstock::python {

/// What `function` of penstock.experiment.reprs makes of an object.
inline nanobind::object repr_by(const char* function, nanobind::handle object) {
  return nanobind::module_::import_("penstock.experiment.reprs").attr(function)(object);
}

}  // namespace penstock::python
