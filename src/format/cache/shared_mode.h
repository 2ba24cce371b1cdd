#pragma once

#include <string>

// What a cache makes is for everyone who may use its folder, whatever the umask of who makes it: it
// gets that folder's mode and, where this user may give it, its group.

namespace penstock::format::pack {

/// Makes `folder` and those above it. Each below `root` has its mode when it gets its name.
void make_shared_folder(const std::string& root, const std::string& folder);

/// Who may write to `root` may then read the file, and write it, but where only owners remove.
void share_file(const std::string& root, const std::string& file) noexcept;

}  // namespace penstock::format::pack
