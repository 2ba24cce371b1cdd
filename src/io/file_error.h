#pragma once

#include <string>

// What a system call on a local file that failed is to a caller.

namespace penstock::io {

/// Throws NotFound where there is nothing at `path`, ResourceExhausted where descriptors or memory
/// ran out, else IoError; `error` is its errno. The message: "cannot <action>: <why>: <path>".
[[noreturn]] void throw_file_error(const char* action, const std::string& path, int error);

/// Throws IoError unless `mode` (st_mode of stat) is of a regular file: reading a pipe or a device
/// could wait or go on for ever. "cannot read: Is a directory: …" for a folder.
void expect_regular(const std::string& path, unsigned mode);

}  // namespace penstock::io
