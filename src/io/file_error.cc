#include "io/file_error.h"

#include <penstock/error.h>

#include <cerrno>
#include <system_error>

namespace penstock::io {

void throw_file_error(const char* action, const std::string& path, int error) {
  const std::string message =
      std::string("cannot ") + action + ": " + std::generic_category().message(error) + ": " + path;
  if (error == ENOENT || error == ENOTDIR) throw NotFound(message);
  if (error == EMFILE || error == ENFILE || error == ENOMEM) throw ResourceExhausted(message);
  throw IoError(message);
}

}  // namespace penstock::io
