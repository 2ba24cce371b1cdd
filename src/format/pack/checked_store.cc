#include "format/pack/checked_store.h"

#include <penstock/error.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/hash/checksum.h"
#include "base/memory/buffer.h"
#include "base/threads/lazy.h"

namespace penstock::format::pack {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

class CheckedStore final : public io::Store {
 public:
  CheckedStore(io::StorePtr store, const std::string& folder, const FileSums& sums)
      : store_(std::move(store)) {
    for (const auto& [path, sum] : sums) files_[io::join(folder, path)].sum = sum;
  }

  /// Throws CorruptData if a file is missing, because a missing commit would hide cells.
  std::vector<io::DirectoryEntry> list(const std::string& directory) const override {
    auto entries = store_->list(directory);
    std::set<std::string> there;
    for (const io::DirectoryEntry& entry : entries) there.insert(io::join(directory, entry.name));
    const std::string begin = io::join(directory, "");
    for (auto file = files_.lower_bound(begin);
         file != files_.end() && file->first.starts_with(begin); ++file) {
      const std::string& path = file->first;
      if (path.find('/', begin.size()) != std::string::npos || there.contains(path)) continue;
      throw CorruptData(
          "a file of the pack is gone (it was taken away, or the pack was replaced since it was "
          "opened: open it again): " +
          path);
    }
    return entries;
  }
  bool exists(const std::string& path) const override { return store_->exists(path); }
  bool is_directory(const std::string& path) const override { return store_->is_directory(path); }
  uint64_t size_bytes(const std::string& path) const override { return store_->size_bytes(path); }
  std::string version(const std::string& path) const override { return store_->version(path); }
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
    check(path);
    store_->read(path, offset, out);
  }
  void read_many(std::span<const io::ReadRequest> reads) const override {
    for (const io::ReadRequest& read : reads) check(read.path);
    store_->read_many(reads);
  }
  io::StoreTraits traits() const override { return store_->traits(); }
  bool will_open(const std::string& directory) const override {
    return store_->will_open(directory);
  }
  void will_read(std::span<const io::ObjectRange> ranges) const override {
    store_->will_read(ranges);
  }

 private:
  struct File {
    FileSum sum;
    Lazy<bool> checked;
  };

  void check(const std::string& path) const {
    const auto file = files_.find(path);
    if (file == files_.end()) {
      if (!store_->exists(path)) return;  // reading it throws
      throw CorruptData(
          "a file that the pack does not know (it was written to, or replaced since "
          "it was opened: open it again): " +
          path);
    }
    file->second.checked.get([&] {
      const FileSum found = sum_of(*store_, path);
      const FileSum& wanted = file->second.sum;
      if (found.bytes != wanted.bytes || found.crc32c != wanted.crc32c) {
        throw CorruptData("a file of the pack is damaged (" +
                          (found.bytes == wanted.bytes
                               ? std::string("its checksum does not fit it")
                               : "it has " + std::to_string(found.bytes) + " of " +
                                     std::to_string(wanted.bytes) + " bytes") +
                          "); pack the experiment again (overwrite): " + path);
      }
      return true;
    });
  }

  io::StorePtr store_;
  std::map<std::string, File> files_;
};

}  // namespace

io::StorePtr checked_store(io::StorePtr store, const std::string& folder, const FileSums& sums) {
  if (sums.empty() || store->traits().remote) return store;
  return std::make_shared<const CheckedStore>(std::move(store), folder, sums);
}

void expect_files(const io::Store& store, std::span<const ExpectedFile> files) {
  std::map<std::string, std::map<std::string, uint64_t>> there;  // by folder, bytes by name
  for (const ExpectedFile& file : files) {
    const std::string name = io::base_name(file.path);
    const std::string folder = file.path.substr(0, file.path.size() - name.size() - 1);
    const auto [listed, is_new] = there.try_emplace(folder);
    if (is_new) {
      for (const io::DirectoryEntry& entry : store.list(folder)) {
        if (!entry.is_directory) listed->second[entry.name] = entry.size_bytes;
      }
    }
    const auto found = listed->second.find(name);
    const bool is_there = found != listed->second.end();
    if (is_there && found->second == file.bytes.value_or(found->second)) continue;
    throw CorruptData("a file of the pack is " +
                      (is_there ? "damaged (it has " + std::to_string(found->second) + " of " +
                                      std::to_string(*file.bytes) + " bytes)"
                                : std::string("missing")) +
                      "; copy the pack again with all its files, empty ones too, or pack the "
                      "experiment again (overwrite): " +
                      file.path);
  }
}

FileSum sum_of(const io::Store& store, const std::string& path) {
  FileSum sum{store.size_bytes(path), 0};
  Buffer piece;
  for (uint64_t done = 0; done < sum.bytes; done += piece.size()) {
    piece.resize_discard(std::min(kPieceBytes, sum.bytes - done));
    store.read(path, done, piece.span());
    sum.crc32c = crc32c(piece.span(), sum.crc32c);
  }
  return sum;
}

}  // namespace penstock::format::pack
