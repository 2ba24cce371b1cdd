#include "register.h"

NB_MODULE(_core, module) {
  module.doc() = "The engine of Penstock; use it through the package `penstock`.";
  module.attr("version") = PENSTOCK_VERSION;
  // A worker process ends without clearing what it holds; that is no leak worth a user's screen.
  nanobind::set_leak_warnings(false);
  penstock::python::register_gil(module);
  penstock::python::register_errors(module);
  penstock::python::register_row_selection(module);
  penstock::python::register_row_sampling(module);
  penstock::python::register_table(module);
  penstock::python::register_experiment(module);
  penstock::python::register_batch(module);
  penstock::python::register_transform(module);
  penstock::python::register_loader(module);
  penstock::python::register_statistics(module);
  penstock::python::register_pack(module);
  penstock::python::register_cache(module);
  penstock::python::register_read_array(module);
  penstock::python::register_decode_bound(module);
  penstock::python::register_split_rows(module);
  penstock::python::register_remote(module);
}
