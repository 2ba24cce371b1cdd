#pragma once

#include <string>
#include <string_view>

#include "format/pack/checked_store.h"
#include "io/store.h"

// The folder that a pack is built in, and its way to the name of the pack.
//
//   PackFolder folder("atlas.pack", key, overwrite);   atlas.pack.partial, of this process alone
//   … write below folder.path(); what an attempt before left there with the same key is kept …
//   folder.finish();                                   atlas.pack
//
// What another key left is removed, and what killed writers of the same left half written. The lock
// goes with the process.

namespace penstock::format::pack {

class PackFolder {
 public:
  /// InvalidArgument for what must not be replaced, or while another process is at it.
  PackFolder(std::string destination, const std::string& key, bool overwrite);
  ~PackFolder();
  PackFolder(const PackFolder&) = delete;
  PackFolder& operator=(const PackFolder&) = delete;

  /// The pack is there, with the same key: nothing is to be done.
  bool complete() const noexcept { return complete_; }
  const std::string& path() const noexcept { return partial_; }
  const std::string& destination() const noexcept { return destination_; }

  /// The folder gets the name of the pack, in the stead of the pack that may have it. Whoever opens
  /// that name meanwhile finds one or the other, where the file system can exchange names.
  void finish();

 private:
  void look(const std::string& key, bool overwrite);
  void check_place() const;
  void leave() noexcept;
  std::string replace();
  bool lock(const std::string& key);  // false where the folder became the pack meanwhile

  std::string destination_;
  std::string partial_;
  bool replaces_ = false;
  bool complete_ = false;
  int lock_ = -1;
};

/// Makes a folder, and those above it.
void make_folder(const std::string& path);

/// Writes a file whole or not at all.
void write_file(const std::string& path, std::string_view bytes);

/// Copies what lies below a folder of any store; files that are there with the same size are kept.
/// Commits first: a fragment that is committed by then is whole. Returns what was copied, by path
/// below the folder.
FileSums copy_tree(const io::Store& store, const std::string& from, const std::string& to);

}  // namespace penstock::format::pack
