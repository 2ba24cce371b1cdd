#pragma once

#include <nanobind/nanobind.h>

// Registers the contents of the extension module, with one function for each concept. register.cpp
// calls the functions in the order of their dependencies. Bodies have no algorithms: they convert,
// release the GIL (support/gil.h) around long or blocking calls, and call the public API of
// include/penstock.

namespace penstock::python {

void register_gil(nanobind::module_& module);
void register_errors(nanobind::module_& module);
void register_row_selection(nanobind::module_& module);
void register_table(nanobind::module_& module);
void register_row_sampling(nanobind::module_& module);
void register_experiment(nanobind::module_& module);
void register_memory(nanobind::module_& module);
void register_batch(nanobind::module_& module);
void register_transform(nanobind::module_& module);
void register_loader(nanobind::module_& module);
void register_resume(nanobind::module_& module);
void register_statistics(nanobind::module_& module);
void register_pack(nanobind::module_& module);
void register_cache(nanobind::module_& module);
void register_read_array(nanobind::module_& module);
void register_decode_bound(nanobind::module_& module);
void register_split_rows(nanobind::module_& module);
void register_remote(nanobind::module_& module);

}  // namespace penstock::python
