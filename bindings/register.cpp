#include "register.h"

NB_MODULE(_core, module) {
  module.doc() = "The engine of Penstock; use it through the package `penstock`.";
  module.attr("version") = PENSTOCK_VERSION;
  // Worker processes end without freeing their objects, so do not report leaks to the user.
  nanobind::set_leak_warnings(false);
  penstock::python::register_gil(module);
  penstock::python::register_errors(module);
  penstock::python::register_row_selection(module);
  penstock::python::register_row_sampling(module);
  penstock::python::register_table(module);
  penstock::python::register_experiment(module);
  penstock::python::register_memory(module);
  penstock::python::register_batch(module);
  penstock::python::register_transform(module);
  penstock::python::register_loader(module);
  penstock::python::register_resume(module);
  penstock::python::register_statistics(module);
  penstock::python::register_pack(module);
  penstock::python::register_cache(module);
  penstock::python::register_read_array(module);
  penstock::python::register_decode_bound(module);
  penstock::python::register_split_rows(module);
  penstock::python::register_remote(module);
}
