#pragma once

#include <string>
#include <string_view>

#include "format/pack/checked_store.h"
#include "io/store.h"

// Files and folders that are written for a pack. A file is whole or absent: it is written under a
// temporary name (row_file/row_file.h), then renamed.

namespace penstock::format::pack {

/// Throws ResourceExhausted for a full disk, else IoError: "cannot ACTION: …: PATH".
[[noreturn]] void fail_to(const char* action, const std::string& path, int error);

/// Makes a folder and its parents.
void make_folder(const std::string& path);

/// Writes a file whole or not at all.
void write_file(const std::string& path, std::string_view bytes);

/// Copies everything below a folder of any store. Existing files of the same size are kept. Commits
/// are copied first, because a fragment whose commit is there is complete. Returns the copied
/// files, by path below the folder.
FileSums copy_tree(const io::Store& store, const std::string& from, const std::string& to);

}  // namespace penstock::format::pack
