#pragma once

#include <string>
#include <string_view>

#include "format/pack/checked_store.h"
#include "io/store.h"

// The folder that a pack is built in, and the swap that gives it the name of the pack.
//
//   PackFolder folder("atlas.pack", key, overwrite);   atlas.pack.partial, of this process alone
//   … write below folder.path(); files of an earlier attempt with the same key are kept …
//   folder.finish();                                   atlas.pack
//
// Files of another key, and files that killed writers left incomplete, are removed. The lock ends
// with the process.

namespace penstock::format::pack {

class PackFolder {
 public:
  /// Throws InvalidArgument if the pack must not be replaced or another process is writing it.
  PackFolder(std::string destination, const std::string& key, bool overwrite);
  ~PackFolder();
  PackFolder(const PackFolder&) = delete;
  PackFolder& operator=(const PackFolder&) = delete;

  /// True if the pack exists with the same key, so that nothing is left to do.
  bool complete() const noexcept { return complete_; }
  const std::string& path() const noexcept { return partial_; }
  const std::string& destination() const noexcept { return destination_; }

  /// Gives the folder the name of the pack, replacing an existing pack. If the file system can swap
  /// names atomically, readers see either the old or the new pack meanwhile.
  void finish();

 private:
  void look(const std::string& key, bool overwrite);
  void check_place() const;
  void leave() noexcept;
  std::string replace();
  bool lock(const std::string& key);  // false if the folder became the pack meanwhile

  std::string destination_;
  std::string partial_;
  bool replaces_ = false;
  bool complete_ = false;
  int lock_ = -1;
};

/// Makes a folder and its parents.
void make_folder(const std::string& path);

/// Writes a file whole or not at all.
void write_file(const std::string& path, std::string_view bytes);

/// Copies everything below a folder of any store. Existing files of the same size are kept. Commits
/// are copied first, because a fragment whose commit is there is complete. Returns the copied
/// files, by path below the folder.
FileSums copy_tree(const io::Store& store, const std::string& from, const std::string& to);

}  // namespace penstock::format::pack
