#include "support/credentials.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <penstock/error.h>

#include <utility>

#include "support/gil.h"

namespace penstock::python {
namespace nb = nanobind;

using Texts = std::map<std::string, std::string>;

std::function<Texts(const std::string&)> credentials_of(nb::object function) {
  if (function.is_none()) return nullptr;
  auto* const kept = new nb::object(std::move(function));
  return [kept](const std::string& profile) {
    const GilAcquire gil;
    try {
      return nb::cast<Texts>((*kept)(profile));
    } catch (nb::python_error& error) {
      // The message alone: what() also has the traceback.
      throw IoError("credentials cannot be found: " + std::string(nb::str(error.value()).c_str()));
    }
  };
}

}  // namespace penstock::python
