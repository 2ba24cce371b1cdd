#pragma once

#include <string>

// What a system call on a local file that failed is to a caller.

namespace penstock::io {

/// Throws NotFound where there is nothing at `path`, ResourceExhausted where descriptors or memory
/// ran out, else IoError; `error` is its errno. The message: "cannot <action>: <why>: <path>".
[[noreturn]] void throw_file_error(const char* action, const std::string& path, int error);

}  // namespace penstock::io
