#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <penstock/error.h>
#include <penstock/loader.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "register.h"
#include "support/gil.h"
#include "support/loader_handle.h"
#include "support/numpy_array.h"

namespace penstock::python {
namespace nb = nanobind;
namespace {

constexpr std::array kBatchTypes = {
    DataType::kFloat32, DataType::kFloat64, DataType::kInt8,   DataType::kUInt8, DataType::kInt16,
    DataType::kUInt16,  DataType::kInt32,   DataType::kUInt32, DataType::kInt64, DataType::kUInt64};

DataType batch_type(const std::string& name) {
  const auto* found = std::find_if(kBatchTypes.begin(), kBatchTypes.end(),
                                   [&](DataType type) { return name_of(type) == name; });
  if (found == kBatchTypes.end()) {
    throw InvalidArgument("dtype must be float32, float64 or an integer type, got " + name);
  }
  return *found;
}

}  // namespace

void register_loader(nb::module_& module) {
  using Release = nb::call_guard<GilRelease>;

  nb::enum_<BatchLayout>(module, "BatchLayout")
      .value("csr", BatchLayout::kCsr)
      .value("dense", BatchLayout::kDense);
  nb::enum_<UnevenRows>(module, "UnevenRows")
      .value("drop", UnevenRows::kDrop)
      .value("pad", UnevenRows::kPad)
      .value("exact", UnevenRows::kExact);

  nb::class_<StoredOrder>(module, "StoredOrder", "Rows ascend by joinid.").def(nb::init<>());
  nb::class_<ScatterShuffle>(module, "ScatterShuffle", "Units are read once, and mixed.")
      .def(nb::init<>());
  nb::class_<GlobalShuffle>(module, "GlobalShuffle", "One permutation of all rows.")
      .def(nb::init<>());
  nb::class_<ChunkShuffle>(module, "ChunkShuffle", "The shuffle of the Census's loaders.")
      .def(
          "__init__",
          [](ChunkShuffle* self, uint32_t chunk_rows, uint32_t chunks_per_block) {
            new (self) ChunkShuffle{chunk_rows, chunks_per_block};
          },
          nb::arg("chunk_rows"), nb::arg("chunks_per_block"));

  nb::class_<KeptRows> kept_rows(module, "KeptRows", "Rows that stay in memory between epochs.");

  nb::class_<BatchPart>(module, "BatchPart", "Columns that make an array of their own in a batch.")
      .def(
          "__init__",
          [](BatchPart* self, int64_t column_end, BatchLayout layout, const std::string& dtype,
             const std::optional<TransformPlan>& transforms, std::string name) {
            new (self)
                BatchPart{column_end, layout, batch_type(dtype),
                          transforms ? std::make_shared<const TransformPlan>(*transforms) : nullptr,
                          std::move(name)};
          },
          nb::arg("column_end"), nb::arg("layout"), nb::arg("dtype"), nb::arg("transforms").none(),
          nb::arg("name"));

  nb::class_<LoaderOptions>(module, "LoaderOptions")
      .def(nb::init<>())
      .def_rw("rows", &LoaderOptions::rows, nb::arg("value").none())
      .def_rw("columns", &LoaderOptions::columns, nb::arg("value").none())
      .def_rw("batch_size", &LoaderOptions::batch_size)
      .def_rw("order", &LoaderOptions::order)
      .def_rw("seed", &LoaderOptions::seed)
      .def_rw("epoch", &LoaderOptions::epoch)
      .def_rw("first_batch", &LoaderOptions::first_batch)
      .def_rw("memory_budget", &LoaderOptions::memory_budget)
      .def_rw("threads", &LoaderOptions::threads)
      .def_rw("kept", &LoaderOptions::kept, nb::arg("value").none())
      .def_rw("kept_memory", &LoaderOptions::kept_memory)
      .def_rw("layout", &LoaderOptions::layout)
      .def_prop_rw(
          "dtype", [](const LoaderOptions& self) { return std::string(name_of(self.dtype)); },
          [](LoaderOptions& self, const std::string& name) { self.dtype = batch_type(name); })
      .def_rw("narrow_values", &LoaderOptions::narrow_values)
      .def_prop_rw(
          "transforms",
          [](const LoaderOptions& self) -> std::optional<TransformPlan> {
            if (self.transforms == nullptr) return std::nullopt;
            return *self.transforms;
          },
          [](LoaderOptions& self, const std::optional<TransformPlan>& plan) {
            self.transforms = plan ? std::make_shared<const TransformPlan>(*plan) : nullptr;
          },
          nb::arg("value").none())
      .def_rw("parts", &LoaderOptions::parts)
      .def_rw("drop_last", &LoaderOptions::drop_last)
      .def_rw("min_batch", &LoaderOptions::min_batch)
      .def_rw("uneven", &LoaderOptions::uneven)
      .def_rw("world_size", &LoaderOptions::world_size)
      .def_rw("rank", &LoaderOptions::rank)
      .def_rw("num_workers", &LoaderOptions::num_workers)
      .def_rw("worker", &LoaderOptions::worker);

  kept_rows.def(nb::init<>())
      .def("rows", &KeptRows::rows)
      .def("bytes", &KeptRows::bytes)
      .def("packed_rows", &KeptRows::packed_rows)
      .def("clear", &KeptRows::clear, Release());

  module.def("keeps_all_rows", &keeps_all_rows, nb::arg("matrix"), nb::arg("options"), Release(),
             "Whether all rows of these options fit in memory_budget and stay there.");
  module.def("divide_memory", &divide_memory, nb::arg("matrix"), nb::arg("options"), Release(),
             "Options that keep a part of the rows, if not all fit in memory_budget.");

  nb::class_<LoaderStats>(module, "LoaderStats")
      .def_ro("cells", &LoaderStats::cells)
      .def_ro("nonzeros", &LoaderStats::nonzeros)
      .def_ro("batches", &LoaderStats::batches)
      .def_ro("bytes_read", &LoaderStats::bytes_read)
      .def_ro("requests", &LoaderStats::requests)
      .def_ro("bytes_needed", &LoaderStats::bytes_needed)
      .def_ro("units", &LoaderStats::units)
      .def_ro("units_in_shuffle", &LoaderStats::units_in_shuffle)
      .def_ro("consumer_wait_seconds", &LoaderStats::consumer_wait_seconds)
      .def_ro("peak_buffered_bytes", &LoaderStats::peak_buffered_bytes)
      .def_ro("spilled_bytes", &LoaderStats::spilled_bytes)
      .def_ro("planned_bytes", &LoaderStats::planned_bytes)
      .def_ro("planned_units", &LoaderStats::planned_units)
      .def_ro("planned_bytes_read", &LoaderStats::planned_bytes_read)
      .def_ro("cached_units", &LoaderStats::cached_units)
      .def_ro("cached_bytes", &LoaderStats::cached_bytes)
      .def_ro("kept_units", &LoaderStats::kept_units)
      .def_ro("kept_bytes", &LoaderStats::kept_bytes)
      .def_ro("all_kept", &LoaderStats::all_kept)
      .def_ro("requests_rows", &LoaderStats::requests_rows);

  nb::class_<LoaderHandle>(module, "Loader", "One epoch.")
      .def(nb::init<const Matrix&, LoaderOptions>(), nb::arg("matrix"), nb::arg("options"),
           Release())
      .def("size", [](const LoaderHandle& self) { return self.loader().size(); })
      .def("row_count", [](const LoaderHandle& self) { return self.loader().row_count(); })
      .def("active_workers",
           [](const LoaderHandle& self) { return self.loader().active_workers(); })
      .def("fingerprint", [](const LoaderHandle& self) { return self.loader().fingerprint(); })
      .def(
          "rows_before", [](const LoaderHandle& self) { return self.loader().rows_before(); },
          Release(), "joinids in the batches before first_batch.")
      .def(
          "row_count_before",
          [](const LoaderHandle& self) { return self.loader().row_count_before(); },
          "Rows in the batches before first_batch; those drawn again are counted each time.")
      .def(
          "label_entropy",
          [](const LoaderHandle& self, const nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig,
                                                         nb::device::cpu>& labels) {
            auto found = std::make_shared<Loader::LabelEntropy>();
            {
              GilRelease release;
              *found = self.loader().label_entropy({labels.data(), labels.size()});
            }
            return nb::make_tuple(numpy_array(found->batches.data(), {found->batches.size()},
                                              DataType::kFloat64, keep_alive(found)),
                                  numpy_array(found->label_rows.data(), {found->label_rows.size()},
                                              DataType::kUInt64, keep_alive(found)));
          },
          nb::arg("labels"),
          nb::sig("def label_entropy(self, labels: numpy.typing.NDArray[numpy.uint32]) -> "
                  "tuple[numpy.typing.NDArray[numpy.float64], numpy.typing.NDArray[numpy.uint64]]"),
          "Entropy of a label in each batch, in bits, and the rows of each label.")
      .def(
          "next",
          [](LoaderHandle& self) -> nb::object {
            auto batch = self.next();
            return batch ? nb::cast(BatchHandle(std::move(batch))) : nb::none();
          },
          nb::sig("def next(self) -> Batch | None"))
      .def(
          "is_ready", [](const LoaderHandle& self) { return self.loader().ready(); },
          "Whether next() would return or raise at once; False before the first call of it.")
      .def("is_usable", &LoaderHandle::is_usable,
           "False in a process that was forked from the one that made it.")
      .def("cancel", &LoaderHandle::cancel, Release())
      .def(
          "counts", [](const LoaderHandle& self) { return self.loader().counts(); },
          "stats() without bytes_needed, planned_bytes and planned_bytes_read, at the cost of a "
          "lock.")
      .def(
          "stats", [](const LoaderHandle& self) { return self.loader().stats(); }, Release());
}

}  // namespace penstock::python
