#include "io/memory_store.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "base/hash/checksum.h"

namespace penstock::io {
namespace {

const std::vector<std::byte>& find(const std::map<std::string, std::vector<std::byte>>& objects,
                                   const std::string& path) {
  const auto found = objects.find(path);
  if (found == objects.end()) throw NotFound("no such object: " + path);
  return found->second;
}

}  // namespace

void MemoryStore::put(const std::string& path, std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  objects_[normalize(path)].assign(bytes.begin(), bytes.end());
}

void MemoryStore::put(const std::string& path, std::string_view bytes) {
  put(path, std::as_bytes(std::span(bytes)));
}

void MemoryStore::remove(const std::string& path) {
  const MutexLock lock(mutex_);
  objects_.erase(normalize(path));
}

void MemoryStore::truncate(const std::string& path, uint64_t size) {
  const MutexLock lock(mutex_);
  auto& bytes = objects_[normalize(path)];
  bytes.resize(std::min<uint64_t>(size, bytes.size()));
}

void MemoryStore::copy_tree(const Store& from, const std::string& directory) {
  for (const DirectoryEntry& entry : from.list(directory)) {
    const std::string path = join(directory, entry.name);
    if (entry.is_directory) {
      copy_tree(from, path);
    } else {
      put(path, from.read_all(path).span());
    }
  }
}

std::vector<std::string> MemoryStore::paths() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> result;
  for (const auto& object : objects_) result.push_back(object.first);
  return result;
}

std::vector<DirectoryEntry> MemoryStore::list(const std::string& directory) const {
  const std::string prefix = normalize(directory) + "/";
  const MutexLock lock(mutex_);
  std::vector<DirectoryEntry> entries;
  for (auto object = objects_.lower_bound(prefix);
       object != objects_.end() && object->first.starts_with(prefix); ++object) {
    const std::string_view rest = std::string_view(object->first).substr(prefix.size());
    const size_t slash = rest.find('/');
    if (slash == std::string_view::npos) {
      entries.push_back({std::string(rest), false, object->second.size()});
    } else if (entries.empty() || entries.back().name != rest.substr(0, slash)) {
      entries.push_back({std::string(rest.substr(0, slash)), true, 0});
    }
  }
  // Paths sort "a.x" before "a/x", but names sort "a" first. So sort by name; list folders once.
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const auto& a, const auto& b) {
                              return a.name == b.name && a.is_directory && b.is_directory;
                            }),
                entries.end());
  return entries;
}

bool MemoryStore::exists(const std::string& path) const {
  const MutexLock lock(mutex_);
  return objects_.contains(normalize(path));
}

bool MemoryStore::is_directory(const std::string& path) const {
  const std::string prefix = normalize(path) + "/";
  const MutexLock lock(mutex_);
  const auto object = objects_.lower_bound(prefix);
  return object != objects_.end() && object->first.starts_with(prefix);
}

std::string MemoryStore::version(const std::string& path) const {
  return std::to_string(crc32c(read_all(path).span()));
}

uint64_t MemoryStore::size_bytes(const std::string& path) const {
  const MutexLock lock(mutex_);
  return find(objects_, normalize(path)).size();
}

void MemoryStore::read(const std::string& path, uint64_t offset, std::span<std::byte> out) const {
  const MutexLock lock(mutex_);
  const auto& bytes = find(objects_, normalize(path));
  if (offset > bytes.size() || out.size() > bytes.size() - offset) {
    throw CorruptData(concat("truncated: wanted ", out.size(), " bytes at offset ", offset,
                             ", ends at ", bytes.size(), ", in ", path));
  }
  if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
}

}  // namespace penstock::io
