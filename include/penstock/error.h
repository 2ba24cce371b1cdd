#pragma once

#include <stdexcept>
#include <string>

// All errors that Penstock throws. Python has a class of the same name for each.
//
// A message says what was wrong with which value. It ends with the offending values and the place
// (file, fragment, tile, offset). A caller that knows more of the place than the thrower adds it
// with `with_place`, which keeps the class.

namespace penstock {

enum class ErrorCode {
  kInvalidArgument,    ///< an error of the caller: a bad value, an unknown name
  kNotFound,           ///< no such path, layer, column
  kUnsupported,        ///< well-formed, but not read by this version; the message says what to do
  kCorruptData,        ///< stored bytes contradict the format
  kIoError,            ///< the operating system or the network refused
  kResourceExhausted,  ///< memory budget, disk, descriptors
  kInternal,           ///< a defect of Penstock
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

template <ErrorCode kCode>
class CodedError : public Error {
 public:
  explicit CodedError(const std::string& message) : Error(kCode, message) {}
};

using InvalidArgument = CodedError<ErrorCode::kInvalidArgument>;
using NotFound = CodedError<ErrorCode::kNotFound>;
using Unsupported = CodedError<ErrorCode::kUnsupported>;
using CorruptData = CodedError<ErrorCode::kCorruptData>;
using IoError = CodedError<ErrorCode::kIoError>;
using ResourceExhausted = CodedError<ErrorCode::kResourceExhausted>;
using Internal = CodedError<ErrorCode::kInternal>;

/// Throws an error of the class that `code` names.
[[noreturn]] void throw_error(ErrorCode code, const std::string& message);

/// Runs `body`. If `body` throws an `Error` that does not name the place yet, rethrows it as the
/// same class with ", in <place>" appended. `place` is called only after a throw.
template <typename Body, typename Place>
auto with_place(Body&& body, Place&& place) -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::string where = place();
    if (message.find(where) != std::string::npos) throw;
    throw_error(error.code(), message + ", in " + where);
  }
}

}  // namespace penstock
