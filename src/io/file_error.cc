#include "io/file_error.h"

#include <penstock/error.h>
#include <sys/stat.h>

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

void expect_regular(const std::string& path, unsigned mode) {
  if (S_ISREG(mode)) return;
  if (S_ISDIR(mode)) throw_file_error("read", path, EISDIR);
  const char* kind = S_ISFIFO(mode)                   ? "a named pipe"
                     : S_ISSOCK(mode)                 ? "a socket"
                     : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                                      : "no regular file";
  throw IoError("cannot read: it is " + std::string(kind) + ", not a file: " + path);
}

}  // namespace penstock::io
