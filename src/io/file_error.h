#pragma once

#include <string>

// Errors for failed system calls on local files.

namespace penstock::io {

/// Throws NotFound if nothing is at `path`, ResourceExhausted if descriptors or memory ran out,
/// otherwise IoError. `error` is the errno. The message: "cannot <action>: <why>: <path>".
[[noreturn]] void throw_file_error(const char* action, const std::string& path, int error);

/// Throws IoError unless `mode` (st_mode of stat) is that of a regular file: reading a pipe or a
/// device might never end. For a folder: "cannot read: Is a directory: …".
void expect_regular(const std::string& path, unsigned mode);

}  // namespace penstock::io
