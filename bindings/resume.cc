#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>
#include <penstock/resume.h>

#include <new>
#include <optional>
#include <string>

#include "register.h"
#include "support/gil.h"

namespace penstock::python {
namespace nb = nanobind;
using namespace nanobind::literals;

namespace {

const char* name_of(UnevenRows uneven) {
  return uneven == UnevenRows::kDrop ? "drop" : uneven == UnevenRows::kPad ? "pad" : "exact";
}

void register_state(nb::module_& module) {
  nb::class_<OrderSettings>(module, "OrderSettings",
                            "What the order of an epoch and its batches depend on, but cells, rank "
                            "and worker.")
      .def_ro("world_size", &OrderSettings::world_size)
      .def_ro("num_workers", &OrderSettings::num_workers)
      .def_ro("batch_size", &OrderSettings::batch_size)
      .def_ro("shuffle", &OrderSettings::shuffle)
      .def_ro("seed", &OrderSettings::seed)
      .def_ro("memory_budget", &OrderSettings::memory_budget)
      .def_ro("sparse", &OrderSettings::sparse)
      .def_prop_ro(
          "dtype",
          [](const OrderSettings& self) { return std::string(penstock::name_of(self.dtype)); })
      .def_ro("drop_last", &OrderSettings::drop_last)
      .def_ro("min_batch", &OrderSettings::min_batch)
      .def_prop_ro("uneven", [](const OrderSettings& self) { return name_of(self.uneven); })
      .def_ro("sampling", &OrderSettings::sampling)
      .def_ro("chunk_size", &OrderSettings::chunk_size)
      .def_ro("chunks_per_block", &OrderSettings::chunks_per_block)
      .def_ro("global_shuffle", &OrderSettings::global_shuffle)
      .def_ro("kept_memory", &OrderSettings::kept_memory)
      .def("same_for_ranks", &OrderSettings::same_for_ranks, "other"_a,
           "Whether only settings differ that each rank may choose.");

  nb::class_<ResumeSegment>(module, "ResumeSegment", "Batches of an epoch that came in one order.")
      .def_ro("order", &ResumeSegment::order)
      .def_ro("plan", &ResumeSegment::plan)
      .def_ro("active_workers", &ResumeSegment::active_workers)
      .def_ro("batches", &ResumeSegment::batches);

  nb::class_<SelectionFingerprint>(module, "SelectionFingerprint",
                                   "Hashes of all that the values of a batch depend on.")
      .def(
          "__init__",
          [](SelectionFingerprint* self, uint64_t cells, uint64_t genes, uint64_t layer,
             uint64_t transforms, uint64_t joined) {
            new (self) SelectionFingerprint{cells, genes, layer, transforms, joined};
          },
          "cells"_a, "genes"_a, "layer"_a, "transforms"_a, "joined"_a)
      .def("differences", &SelectionFingerprint::differences, "other"_a,
           "What differs, in words; empty where nothing does.");

  nb::class_<ResumeState>(module, "ResumeState", "How far an epoch is.")
      .def(
          "__init__",
          [](ResumeState* self, uint64_t epoch, const SelectionFingerprint& selection) {
            new (self) ResumeState{epoch, selection, {}, std::nullopt, std::nullopt};
          },
          "epoch"_a, "selection"_a)
      .def_ro("epoch", &ResumeState::epoch)
      .def_ro("selection", &ResumeState::selection)
      .def_ro("segments", &ResumeState::segments)
      .def_ro("worker", &ResumeState::worker)
      .def("check_worker", &ResumeState::check_worker, "worker"_a, "num_workers"_a)
      .def("to_json", &ResumeState::to_json)
      .def_static("from_json", &ResumeState::from_json, "text"_a)
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__getstate__", &ResumeState::to_json)
      .def("__setstate__", [](ResumeState& self, const std::string& text) {
        new (&self) ResumeState(ResumeState::from_json(text));
      });
}

}  // namespace

void register_resume(nb::module_& module) {
  register_state(module);
  nb::class_<EpochRun>(module, "EpochRun", "An epoch as this process reads it.")
      .def(nb::init<const ResumeState&, const LoaderOptions&, bool>(), "state"_a, "options"_a,
           "is_worker"_a)
      .def_prop_ro("epoch", &EpochRun::epoch)
      .def_prop_ro("order", &EpochRun::order)
      .def_prop_ro("earlier", &EpochRun::earlier)
      .def_prop_ro("batches", &EpochRun::batches)
      .def_prop_ro("size", [](const EpochRun& self) { return self.size().value_or(0); })
      .def_prop_ro("as_worker", &EpochRun::as_worker)
      .def_prop_ro("finished", &EpochRun::finished)
      .def("loader_options", &EpochRun::loader_options, "left"_a)
      .def(
          "set_plan",
          [](EpochRun& self, uint64_t fingerprint, uint32_t active_workers, uint64_t size,
             const std::string& stored) {
            self.set_plan({fingerprint, active_workers, size}, stored);
          },
          "fingerprint"_a, "active_workers"_a, "size"_a, "stored"_a)
      .def("count_batch", &EpochRun::count_batch)
      .def("state", &EpochRun::state);
  module.def(
      "rows_taken",
      [](const Matrix& matrix, const LoaderOptions& before, uint64_t epoch,
         const ResumeSegment& segment) {
        RowsTaken taken;
        {
          const GilRelease release;
          taken = rows_taken(matrix, before, epoch, segment);
        }
        return nb::make_tuple(taken.rows, taken.count);
      },
      "matrix"_a, "before"_a, "epoch"_a, "segment"_a,
      nb::sig("def rows_taken(matrix: Matrix, before: LoaderOptions, epoch: int, "
              "segment: ResumeSegment) -> tuple[RowSelection, int]"),
      "Rows that all ranks and workers handed over in a segment; their number, repeats included.");
}

}  // namespace penstock::python
