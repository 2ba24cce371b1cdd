#include "format/tiledb/directory/prefetch.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "format/tiledb/directory/timestamped_name.h"

namespace penstock::format::tiledb {
namespace {

constexpr uint64_t kWholeBytes = uint64_t{4} << 20;  // longer files are read when needed
constexpr uint64_t kTailBytes = uint64_t{64} << 10;  // footers take 3 KiB with 30 attributes
constexpr uint64_t kRoomBytes = uint64_t{128} << 20;
constexpr size_t kMostFooters = 4096;
constexpr int kDeepest = 16;

class MetadataFiles {
 public:
  explicit MetadataFiles(const io::Store& store) : store_(store) {}

  void visit(const std::string& folder, int depth) {
    const auto entries = store_.list(folder);
    for (const io::DirectoryEntry& entry : entries) {
      const std::string path = io::join(folder, entry.name);
      if (!entry.is_directory) {
        if (entry.name.starts_with("__")) add(path, entry.size_bytes, kWholeBytes);
      } else if (entry.name == "__fragments") {
        for (const auto& fragment : store_.list(path)) add_footer(io::join(path, fragment.name));
      } else if (is_metadata(entry.name)) {
        add_files(path, depth + 1);
      } else if (TimestampedName::parse(entry.name)) {
        add_footer(path);  // a fragment as before format 12
      } else if (depth < kDeepest) {
        visit(path, depth + 1);
      }
    }
  }

  const std::vector<io::ObjectRange>& ranges() const noexcept { return ranges_; }

 private:
  static bool is_metadata(std::string_view name) {
    constexpr std::string_view kNames[] = {"__schema", "__commits", "__meta", "__group",
                                           "__fragment_meta"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
  }

  void add_files(const std::string& folder, int depth) {
    for (const io::DirectoryEntry& entry : store_.list(folder)) {
      const std::string path = io::join(folder, entry.name);
      if (!entry.is_directory) {
        add(path, entry.size_bytes, kWholeBytes);
      } else if (depth < kDeepest) {
        add_files(path, depth + 1);  // __schema/__enumerations
      }
    }
  }

  void add_footer(const std::string& fragment) {
    if (++footers_ > kMostFooters) return;
    for (const io::DirectoryEntry& entry : store_.list(fragment)) {
      if (entry.name != "__fragment_metadata.tdb") continue;
      const uint64_t tail = std::min(entry.size_bytes, kTailBytes);
      add(io::join(fragment, entry.name), tail, kTailBytes, entry.size_bytes - tail);
    }
  }

  void add(const std::string& path, uint64_t length, uint64_t longest, uint64_t offset = 0) {
    if (length == 0 || length > longest || bytes_ + length > kRoomBytes) return;
    bytes_ += length;
    ranges_.push_back({path, {offset, length}});
  }

  const io::Store& store_;
  std::vector<io::ObjectRange> ranges_;
  uint64_t bytes_ = 0;
  size_t footers_ = 0;
};

}  // namespace

void prefetch_metadata(const io::Store& store, const std::string& path) {
  if (!store.will_open(path)) return;
  MetadataFiles files(store);
  files.visit(io::normalize(path), 0);
  store.will_read(files.ranges());
}

}  // namespace penstock::format::tiledb
