#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <map>
#include <string>

namespace penstock::python {

/// StorageOptions::credentials from a Python function of a profile's name, or None. Any thread that
/// needs credentials may call it. The function lives as long as the store, which may outlive the
/// interpreter.
std::function<std::map<std::string, std::string>(const std::string&)> credentials_of(
    nanobind::object function);

}  // namespace penstock::python
