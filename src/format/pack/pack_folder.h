#pragma once

#include <string>

// The folder that a pack is built in, and the swap that gives it the name of the pack.
//
//   PackFolder folder("atlas.pack", key, overwrite);   atlas.pack.partial, of this process alone
//   … write below folder.path(); files of an earlier attempt with the same key are kept …
//   folder.finish();                                   atlas.pack
//
// Files of another key, and files that killed writers left incomplete, are removed. The lock ends
// with the process.
//
// Parts of a pack, in other processes, write to the same folder (FolderUse). Correctness does not
// rest on the lock, which some shared file systems do not keep: all writers of a file write the
// same bytes, under names of their own, and rename.

namespace penstock::format::pack {

enum class FolderUse {
  kAlone,   ///< the lock is exclusive; finish() is called
  kPart,    ///< parts share the lock, and make the folder if it is not there
  kJoined,  ///< a part of a process that has the folder alone: no lock, and no folder is made
};

class PackFolder {
 public:
  /// Throws InvalidArgument if the pack must not be replaced or another process is writing it. A
  /// part throws it also if the folder has another key.
  PackFolder(std::string destination, const std::string& key, bool overwrite,
             FolderUse use = FolderUse::kAlone);
  ~PackFolder();
  PackFolder(const PackFolder&) = delete;
  PackFolder& operator=(const PackFolder&) = delete;

  /// True if the pack exists with the same key, so that nothing is left to do. Also for a part that
  /// joins a folder which has become the pack.
  bool complete() const noexcept { return complete_; }
  const std::string& path() const noexcept { return partial_; }
  const std::string& destination() const noexcept { return destination_; }

  /// Throws IoError if the folder became the pack, or gave way to another one. For parts, before
  /// they write.
  void check_still_there() const;

  /// Makes a folder in this one, and those between; throws IoError if this one is gone.
  void make_below(const std::string& path) const;

  /// Gives the folder the name of the pack, replacing an existing pack. If the file system can swap
  /// names atomically, readers see either the old or the new pack meanwhile. A part that still
  /// writes leaves nothing behind: its file has no name any more.
  void finish();

 private:
  enum class Locked { kYes, kNotOffered, kGone };  ///< the file system may have no locks

  void look(const std::string& key, bool overwrite);
  void check_place() const;
  Locked lock_marker(int how);
  void write_key(const std::string& key) const;
  void check_key(const std::string& key);
  void unlock() noexcept;
  void leave() noexcept;
  std::string replace();
  // These return false if the folder became the pack meanwhile.
  bool lock(const std::string& key);
  bool lock_as_part(const std::string& key);
  bool join(const std::string& key);

  std::string destination_;
  std::string partial_;
  FolderUse use_;
  bool replaces_ = false;
  bool complete_ = false;
  int lock_ = -1;
};

}  // namespace penstock::format::pack
