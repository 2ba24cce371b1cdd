#include <nanobind/stl/string.h>
#include <penstock/cache.h>

#include <utility>

#include "register.h"
#include "support/gil.h"

namespace penstock::python {
namespace nb = nanobind;

void register_cache(nb::module_& module) {
  using Release = nb::call_guard<GilRelease>;

  nb::class_<Cache>(module, "Cache", "Rows kept on a local disk.")
      .def(
          "__init__",
          [](Cache* self, std::string folder, uint64_t limit_bytes) {
            CacheOptions options;
            options.folder = std::move(folder);
            if (limit_bytes != 0) options.limit_bytes = limit_bytes;
            new (self) Cache(std::move(options));
          },
          nb::arg("folder"), nb::arg("limit_bytes"))
      .def("through", &Cache::through, nb::arg("matrix"), Release())
      .def("problem", &Cache::problem,
           "Why nothing is kept any more; empty while it is. At the cost of a lock.");
}

}  // namespace penstock::python
