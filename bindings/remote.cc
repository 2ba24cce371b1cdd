#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/cancellation.h"
#include "io/s3/shared_config.h"
#include "io/s3/sigv4.h"
#include "register.h"

// What remote stores need of Python: Ctrl-C while they wait; and the parts of them that tests
// compare with botocore.

namespace penstock::python {
namespace nb = nanobind;

void register_remote(nb::module_& module) {
  // Signals are handled by the main thread alone; of others this asks nothing.
  set_wait_hook([] {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });

  module.def(
      "_sign_request",
      [](std::string method, std::string host, std::string path,
         std::vector<std::pair<std::string, std::string>> query,
         std::vector<std::pair<std::string, std::string>> headers, std::string region,
         std::string timestamp, std::string access_key_id, std::string secret_access_key,
         std::string session_token) {
        return io::sign_request(
            {std::move(method), std::move(host), std::move(path), std::move(query),
             std::move(headers), std::move(region), std::move(timestamp)},
            {std::move(access_key_id), std::move(secret_access_key), std::move(session_token)});
      },
      nb::arg("method"), nb::arg("host"), nb::arg("path"), nb::arg("query"), nb::arg("headers"),
      nb::arg("region"), nb::arg("timestamp"), nb::arg("access_key_id"),
      nb::arg("secret_access_key"), nb::arg("session_token"),
      "Headers of a request signed with SigV4: for tests.");
  module.def("_percent_encode", &io::percent_encode, nb::arg("text"), nb::arg("encode_slash"),
             "For tests.");
  module.def("_canonical_query", &io::canonical_query, nb::arg("query"), "For tests.");
  module.def("_parse_config", &io::parse_config, nb::arg("text"), "For tests.");
}

}  // namespace penstock::python
