#pragma once

#include <nanobind/nanobind.h>

// What the extension module offers, one function for each concept; register.cpp calls them in the
// order in which they need one another. Bodies hold no algorithm: they convert, release the GIL
// (gil.h) around whatever can block or take long, and call the public API of include/penstock.

namespace penstock::python {

void register_gil(nanobind::module_& module);
void register_errors(nanobind::module_& module);
void register_row_selection(nanobind::module_& module);
void register_table(nanobind::module_& module);
void register_row_sampling(nanobind::module_& module);
void register_experiment(nanobind::module_& module);
void register_batch(nanobind::module_& module);
void register_transform(nanobind::module_& module);
void register_loader(nanobind::module_& module);
void register_statistics(nanobind::module_& module);
void register_pack(nanobind::module_& module);
void register_cache(nanobind::module_& module);
void register_read_array(nanobind::module_& module);
void register_decode_bound(nanobind::module_& module);
void register_split_rows(nanobind::module_& module);
void register_remote(nanobind::module_& module);

}  // namespace penstock::python
