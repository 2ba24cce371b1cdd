#pragma once

#include <string>

// Everyone who may use a cache's folder may use its files, whatever the umask of the process that
// makes them: files get the folder's mode and, if this user may set it, its group.

namespace penstock::format::pack {

/// Makes `folder` and its parents. Each one below `root` has root's mode when it gets its name.
void make_shared_folder(const std::string& root, const std::string& folder);

/// Lets everyone who may write to `root` read the file. They may also write it, unless only owners
/// may remove files there.
void share_file(const std::string& root, const std::string& file) noexcept;

}  // namespace penstock::format::pack
