#include <penstock/error.h>

#include <exception>
#include <new>
#include <string>

#include "register.h"
#include "support/gil.h"

// Maps the C++ classes of <penstock/error.h> to the classes of the same name in penstock.errors.
// These are written in Python, so they can have two bases and be pickled.

namespace penstock::python {
namespace {

const char* class_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kCorruptData:
      return "CorruptData";
    case ErrorCode::kIoError:
      return "IoError";
    case ErrorCode::kResourceExhausted:
      return "ResourceExhausted";
    case ErrorCode::kInternal:
      break;
  }
  return "Internal";
}

void raise(ErrorCode code, const char* message) {
  // Stored names may have any bytes; decoding an error about them must not fail.
  PyObject* text = PyUnicode_DecodeUTF8(
      message, static_cast<Py_ssize_t>(std::char_traits<char>::length(message)),
      "backslashreplace");
  if (text == nullptr) return;
  nanobind::object owned = nanobind::steal(text);
  nanobind::object type = nanobind::module_::import_("penstock.errors").attr(class_name(code));
  PyErr_SetObject(type.ptr(), owned.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    if (ends_without_this_thread()) return PyErr_SetNone(PyExc_SystemExit);
    raise(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    raise(ErrorCode::kResourceExhausted, "out of memory");
  }
}

}  // namespace

void register_errors(nanobind::module_& module) {
  nanobind::register_exception_translator(translate);
  module.def(
      "_throw",
      [](int code, const nanobind::bytes& message) {
        throw_error(static_cast<ErrorCode>(code), std::string(message.c_str(), message.size()));
      },
      nanobind::arg("code"), nanobind::arg("message"),
      "Throws the C++ error of that code: tests check every row of the mapping with it.");
}

}  // namespace penstock::python
