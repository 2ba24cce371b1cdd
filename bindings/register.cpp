#include "register.h"

NB_MODULE(_core, module) {
  module.doc() = "The engine of Penstock; use it through the package `penstock`.";
  module.attr("version") = PENSTOCK_VERSION;
  penstock::python::register_errors(module);
  penstock::python::register_row_selection(module);
  penstock::python::register_table(module);
  penstock::python::register_experiment(module);
  penstock::python::register_batch(module);
  penstock::python::register_loader(module);
  penstock::python::register_read_array(module);
}
