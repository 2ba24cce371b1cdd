#include "io/remote/remote_store.h"

#include <penstock/error.h>

#include <algorithm>
#include <utility>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "io/remote/fork_safe_lock.h"
#include "io/whole_files.h"

namespace penstock::io {
namespace {

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool below(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path[directory.size()] == '/' &&
         path.compare(0, directory.size(), directory) == 0;
}

}  // namespace

RemoteStore::RemoteStore(std::shared_ptr<const ObjectSource> source) : source_(std::move(source)) {}

// Adds an object and the folders between it and `root`. Keys may be any text, so names that are not
// plain paths are left out: markers of folders end in a slash, and a copy must not leave its
// destination by "..". TileDB and packs have no such names.
void RemoteStore::add(const RemoteObject& object, const std::string& root) const {
  if (!below(object.path, root)) return;
  if (!is_plain_path(std::string_view(object.path).substr(root.size() + 1))) return;
  std::string name = base_name(object.path);
  std::string folder = parent_of(object.path);
  folders_[folder][name] = {name, false, object.size_bytes};
  objects_.try_emplace(object.path, object);
  while (folder.size() > root.size()) {
    name = base_name(folder);
    folder = parent_of(folder);
    if (!folders_[folder].try_emplace(name, DirectoryEntry{name, true, 0}).second) break;
  }
}

bool RemoteStore::below_tree(const std::string& folder) const {
  for (std::string at = folder; !at.empty(); at = parent_of(at)) {
    if (trees_.contains(at)) return true;
  }
  return false;
}

void RemoteStore::need_folder(const std::string& path) const {
  {
    const MutexLock lock(fork_safe_lock());
    if (folders_.contains(path) || below_tree(path)) return;
    // The list of the folder above has the names of its folders.
    if (const auto above = folders_.find(parent_of(path)); above != folders_.end()) {
      const auto entry = above->second.find(base_name(path));
      if (entry == above->second.end() || !entry->second.is_directory) return;
    }
  }
  const RemoteListing listing = source_->list_folder(path);
  const MutexLock lock(fork_safe_lock());
  if (listing.whole_tree) return add_tree(listing, path);
  Folder& folder = folders_[path];
  for (const std::string& found : listing.folders) {
    if (!below(found, path)) continue;
    const std::string name = found.substr(path.size() + 1);
    if (name == base_name(name) && is_plain_path(name)) folder[name] = {name, true, 0};
  }
  for (const RemoteObject& object : listing.objects) {
    if (parent_of(object.path) == path) add(object, path);
  }
}

bool RemoteStore::will_open(const std::string& directory) const {
  const std::string root = normalize(directory);
  {
    const MutexLock lock(fork_safe_lock());
    if (below_tree(root)) return true;
  }
  const RemoteListing listing = source_->list_tree(root, kMaxTreeObjects);
  if (!listing.complete) return false;
  const MutexLock lock(fork_safe_lock());
  add_tree(listing, root);
  return true;
}

// A folder without objects may be an object itself, which the folder above tells.
void RemoteStore::add_tree(const RemoteListing& listing, const std::string& root) const {
  if (below_tree(root)) return;
  for (const RemoteObject& object : listing.objects) add(object, root);
  if (!folders_[root].empty()) trees_.insert(root);
}

std::vector<DirectoryEntry> RemoteStore::list(const std::string& directory) const {
  const std::string path = normalize(directory);
  need_folder(path);
  const MutexLock lock(fork_safe_lock());
  std::vector<DirectoryEntry> entries;
  const auto folder = folders_.find(path);
  if (folder == folders_.end()) return entries;
  for (const auto& [name, entry] : folder->second) entries.push_back(entry);
  return entries;
}

bool RemoteStore::exists(const std::string& path) const {
  const std::string object = normalize(path);
  {
    const MutexLock lock(fork_safe_lock());
    if (objects_.contains(object)) return true;
    if (trees_.contains(object)) return false;  // opened as a folder
  }
  if (const auto found = source_->find_file(object)) {
    const MutexLock lock(fork_safe_lock());
    objects_.try_emplace(object, *found);
    return true;
  }
  try {
    need_folder(parent_of(object));
  } catch (const Unsupported&) {  // of a web server, which has just said that it is not there
    if (is_named_whole_file(object)) return false;
    throw;
  }
  const MutexLock lock(fork_safe_lock());
  return objects_.contains(object);
}

bool RemoteStore::is_directory(const std::string& path) const {
  const std::string folder = normalize(path);
  need_folder(folder);
  const MutexLock lock(fork_safe_lock());
  const auto found = folders_.find(folder);
  return found != folders_.end() && !found->second.empty();
}

RemoteObject RemoteStore::object(const std::string& path) const {
  const std::string name = normalize(path);
  for (int round = 0;; ++round) {
    {
      const MutexLock lock(fork_safe_lock());
      const auto found = objects_.find(name);
      if (found != objects_.end()) return found->second;
    }
    if (round == 1) throw NotFound("no such object: " + name);
    need_folder(parent_of(name));
  }
}

uint64_t RemoteStore::size_bytes(const std::string& path) const { return object(path).size_bytes; }

std::string RemoteStore::version(const std::string& path) const {
  const RemoteObject found = object(path);
  return found.etag.empty() ? found.last_modified : found.etag;
}

void RemoteStore::read(const std::string& path, uint64_t offset, std::span<std::byte> out) const {
  const ReadRequest request{path, offset, out};
  read_many({&request, 1});
}

void RemoteStore::read_many(std::span<const ReadRequest> requests) const {
  std::vector<RemoteRead> reads;
  for (const ReadRequest& request : requests) {
    const RemoteObject found = object(request.path);
    const uint64_t size = found.size_bytes;
    if (request.offset > size || request.out.size() > size - request.offset) {
      throw CorruptData(concat("truncated: wanted ", request.out.size(), " bytes at offset ",
                               request.offset, ", ends at ", size, ", in ", found.path));
    }
    {
      const MutexLock lock(fork_safe_lock());
      if (ahead_.take(found.path, request.offset, request.out)) continue;
    }
    reads.push_back({found, request.offset, request.out, nullptr});
  }
  fetch(reads);
}

// Splits long reads into equal requests. The first ETag of an object that is seen here (or its time
// if there is none) is kept; later responses must agree.
void RemoteStore::fetch(std::vector<RemoteRead>& wanted) const {
  std::vector<RemoteRead> reads;
  for (const RemoteRead& read : wanted) {
    const uint64_t size = read.out.size();
    uint64_t parts = size / kMaxRequestBytes + (size % kMaxRequestBytes != 0 ? 1 : 0);
    for (uint64_t begin = 0; parts != 0; --parts) {
      const uint64_t length = (size - begin) / parts;
      reads.push_back({read.object, read.offset + begin, read.out.subspan(begin, length), nullptr});
      begin += length;
    }
  }
  if (reads.empty()) return;
  std::vector<ObjectVersion> seen(reads.size());
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].object.etag.empty()) reads[i].seen = &seen[i];
  }
  source_->read(reads);
  const MutexLock lock(fork_safe_lock());
  for (size_t i = 0; i < reads.size(); ++i) {
    const auto found = objects_.find(reads[i].object.path);
    if (found == objects_.end()) continue;
    RemoteObject& object = found->second;
    if (!seen[i].agrees_with(object)) {
      throw IoError("the object changed while it was read; open the data again: " + object.path);
    }
    if (object.etag.empty()) object.etag = seen[i].etag;
    if (object.last_modified.empty()) object.last_modified = seen[i].last_modified;
  }
}

StoreTraits RemoteStore::traits() const {
  StoreTraits traits;
  traits.remote = true;
  traits.coalescing.max_gap_bytes = 256 * 1024;
  traits.coalescing.max_waste_share = 0.06;
  traits.coalescing.max_read_bytes = kMaxRequestBytes;
  return traits;
}

void RemoteStore::will_read(std::span<const ObjectRange> ranges) const {
  std::map<std::string, std::vector<ByteRange>> wanted;
  for (const ObjectRange& each : ranges) {
    RemoteObject found;
    try {
      found = object(each.path);
    } catch (const NotFound&) {
      continue;  // a later read throws
    }
    if (each.range.offset >= found.size_bytes) continue;
    const ByteRange range{each.range.offset,
                          std::min(each.range.length, found.size_bytes - each.range.offset)};
    const MutexLock lock(fork_safe_lock());
    if (range.length != 0 && !ahead_.has(found.path, range)) wanted[found.path].push_back(range);
  }
  struct Block {
    RemoteObject object;
    ByteRange range;
    Buffer bytes;
  };
  std::vector<Block> blocks;
  uint64_t room = ReadAhead::kRoomBytes;
  CoalescingOptions options = traits().coalescing;
  options.max_read_bytes = room;
  for (const auto& [path, of_object] : wanted) {
    // Ranges that are read together become one block, so that a read may span two ranges.
    for (const ByteRange& range : coalesce(of_object, options).reads) {
      if (range.length > room) continue;  // read on demand
      room -= range.length;
      blocks.push_back({object(path), range, Buffer()});
    }
  }
  std::vector<RemoteRead> reads;
  for (Block& block : blocks) {
    block.bytes.resize_discard(block.range.length);
    reads.push_back({block.object, block.range.offset, block.bytes.span(), nullptr});
  }
  fetch(reads);
  const MutexLock lock(fork_safe_lock());
  for (Block& block : blocks) {
    ahead_.put(block.object.path, block.range.offset, std::move(block.bytes));
  }
}

}  // namespace penstock::io
