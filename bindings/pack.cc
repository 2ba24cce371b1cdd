#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <penstock/pack.h>

#include <optional>
#include <tuple>
#include <utility>

#include "register.h"
#include "support/gil.h"

namespace penstock::python {
namespace nb = nanobind;

void register_pack(nb::module_& module) {
  using Release = nb::call_guard<GilRelease>;

  nb::class_<PackProgress>(module, "PackProgress")
      .def_ro("rows_done", &PackProgress::rows_done)
      .def_ro("rows_total", &PackProgress::rows_total)
      .def_ro("rows_kept", &PackProgress::rows_kept)
      .def_ro("bytes_written", &PackProgress::bytes_written)
      .def_ro("layer", &PackProgress::layer)
      .def_ro("passes", &PackProgress::passes)
      .def_ro("pass_number", &PackProgress::pass)
      .def_ro("pass_share", &PackProgress::pass_share);

  nb::class_<Packer>(module, "Packer", "Packs an experiment, a while at a time.")
      .def(
          "__init__",
          [](Packer* self, const Experiment& source, std::string destination,
             std::optional<RowSelection> rows, std::vector<std::string> measurements,
             std::vector<std::string> layers, bool overwrite, unsigned threads,
             uint64_t rows_per_file, uint64_t memory_budget,
             std::optional<std::tuple<uint64_t, uint64_t, bool>> part) {
            PackOptions options;
            options.rows = std::move(rows);
            options.measurements = std::move(measurements);
            options.layers = std::move(layers);
            options.overwrite = overwrite;
            options.threads = threads;
            options.memory_budget = memory_budget;
            if (rows_per_file != 0) options.rows_per_file = rows_per_file;
            if (part) {
              options.part = PackPart{std::get<0>(*part), std::get<1>(*part), std::get<2>(*part)};
            }
            new (self) Packer(source, std::move(destination), std::move(options));
          },
          nb::arg("source"), nb::arg("destination"), nb::arg("rows").none(),
          nb::arg("measurements"), nb::arg("layers"), nb::arg("overwrite"), nb::arg("threads"),
          nb::arg("rows_per_file"), nb::arg("memory_budget") = PackOptions{}.memory_budget,
          nb::arg("part").none() = nb::none(), Release(),
          "`part`: number from 0, count, and whether another Packer has begun and finishes.")
      .def("begin", &Packer::begin, Release(), "Copies obs and var, and makes all folders.")
      .def_prop_ro("key", &Packer::key, "SHA-256 of all that is packed, hexadecimal.")
      .def("files", &Packer::files, "Row files of the pack, or of the part, by path below it.")
      .def("close", &Packer::close, Release(), "Lets others pack there.")
      .def("stored_by_columns", &Packer::stored_by_columns)
      .def("advance", &Packer::advance, nb::arg("seconds"), Release(),
           "Works on for about so long; False when the pack is there.")
      .def("progress", &Packer::progress);
}

}  // namespace penstock::python
