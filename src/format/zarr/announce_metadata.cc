#include "format/zarr/announce_metadata.h"

#include <string_view>
#include <vector>

namespace penstock::format::zarr {
namespace {

/// Objects and folders that are looked at: about 20 ms.
constexpr size_t kMostEntries = 50'000;

/// Larger documents are read when they are needed.
constexpr uint64_t kMostDocumentBytes = 1 << 20;
constexpr size_t kMostDocuments = 4096;

bool is_document(std::string_view name) {
  return name == "zarr.json" || name == ".zarray" || name == ".zgroup" || name == ".zattrs";
}

}  // namespace

void announce_metadata(const io::Store& store, const std::string& root) {
  std::vector<io::ObjectRange> documents;
  std::vector<std::string> folders{root};
  size_t entries = 0;
  for (size_t next = 0; next < folders.size() && entries < kMostEntries; ++next) {
    const std::string folder = folders[next];
    for (const io::DirectoryEntry& entry : store.list(folder)) {
      ++entries;
      const std::string path = io::join(folder, entry.name);
      if (entry.is_directory) {
        folders.push_back(path);
      } else if (is_document(entry.name) && entry.size_bytes <= kMostDocumentBytes &&
                 documents.size() < kMostDocuments) {
        documents.push_back({path, {0, entry.size_bytes}});
      }
    }
  }
  store.will_read(documents);
}

}  // namespace penstock::format::zarr
