#include <penstock/error.h>

namespace penstock {

void throw_error(ErrorCode code, const std::string& message) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      throw InvalidArgument(message);
    case ErrorCode::kNotFound:
      throw NotFound(message);
    case ErrorCode::kUnsupported:
      throw Unsupported(message);
    case ErrorCode::kCorruptData:
      throw CorruptData(message);
    case ErrorCode::kIoError:
      throw IoError(message);
    case ErrorCode::kResourceExhausted:
      throw ResourceExhausted(message);
    case ErrorCode::kInternal:
      break;
  }
  throw Internal(message);
}

}  // namespace penstock
