#include "io/zip/zip_store.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/threads/mutex.h"
#include "io/remote/fork_safe_lock.h"
#include "io/zip/inflate.h"
#include "io/zip/zip_directory.h"

namespace penstock::io {
namespace {

/// A directory of 10^6 entries has about 100 MB.
constexpr uint64_t kMostDirectoryBytes = uint64_t{1} << 30;

/// An entry and its name.
using Named = ZipEntries::value_type;

/// Larger deflated entries are refused: each read would inflate all of one. So are those of more
/// than 64 MiB that make more of a stored byte than cells and indexes do.
constexpr uint64_t kMostInflatedBytes = uint64_t{1} << 30;
constexpr uint64_t kMostUnlikelyBytes = uint64_t{64} << 20;
constexpr uint64_t kMostLikelyRatio = 64;

/// Inflated entries up to this size are kept, up to kKeptBytes in all.
constexpr uint64_t kSmallBytes = uint64_t{1} << 20;
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;

constexpr std::string_view kMakeAgain =
    "; make the archive again without compression (zip -0), or unpack it";

class ZipStore final : public Store {
 public:
  ZipStore(StorePtr store, std::string path, uint64_t archive_bytes, ZipEntries entries)
      : store_(std::move(store)),
        path_(std::move(path)),
        archive_bytes_(archive_bytes),
        entries_(std::move(entries)) {}

  std::vector<DirectoryEntry> list(const std::string& directory) const override;
  bool exists(const std::string& path) const override;
  bool is_directory(const std::string& path) const override;
  uint64_t size_bytes(const std::string& path) const override {
    return named(path).second.size_bytes;
  }
  std::string version(const std::string& path) const override {
    named(path);
    return store_->version(path_);
  }
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
    const ReadRequest request{path, offset, out};
    read_many({&request, 1});
  }
  void read_many(std::span<const ReadRequest> reads) const override;
  StoreTraits traits() const override { return store_->traits(); }
  bool will_open(const std::string& /*directory*/) const override { return traits().remote; }
  void will_read(std::span<const ObjectRange> ranges) const override;

 private:
  std::string name_of(const std::string& path) const;
  const Named* find(const std::string& path) const;
  const Named& named(const std::string& path) const;
  void need_offsets(std::span<const Named* const> entries) const;
  uint64_t data_offset(const ZipEntry& entry) const;
  std::shared_ptr<const Buffer> inflated(const ZipEntry& entry, const std::string& path) const;
  void expect_range(const ReadRequest& request, const ZipEntry& entry) const;

  const StorePtr store_;
  const std::string path_;
  const uint64_t archive_bytes_;
  const ZipEntries entries_;
  // By entry: hostile entries of different sizes may have one place.
  mutable std::map<const ZipEntry*, uint64_t> data_offsets_ PENSTOCK_GUARDED_BY(fork_safe_lock());
  mutable std::map<const ZipEntry*, std::shared_ptr<const Buffer>> kept_
      PENSTOCK_GUARDED_BY(fork_safe_lock());
  mutable uint64_t kept_bytes_ PENSTOCK_GUARDED_BY(fork_safe_lock()) = 0;
};

/// Path in the archive, "" for its root; "/" for paths outside, which no entry has.
std::string ZipStore::name_of(const std::string& path) const {
  const std::string normal = normalize(path);
  if (normal == path_) return "";
  if (!normal.starts_with(path_) || normal[path_.size()] != '/') return "/";
  return normal.substr(path_.size() + 1);
}

const Named* ZipStore::find(const std::string& path) const {
  const auto found = entries_.find(name_of(path));
  return found == entries_.end() ? nullptr : &*found;
}

const Named& ZipStore::named(const std::string& path) const {
  const Named* const found = find(path);
  if (found == nullptr) throw NotFound("no such object: " + path);
  return *found;
}

std::vector<DirectoryEntry> ZipStore::list(const std::string& directory) const {
  const std::string name = name_of(directory);
  const std::string prefix = name.empty() ? "" : name + "/";
  std::vector<DirectoryEntry> result;
  for (auto each = entries_.lower_bound(prefix);
       each != entries_.end() && each->first.starts_with(prefix);) {
    const std::string_view rest = std::string_view(each->first).substr(prefix.size());
    const size_t slash = rest.find('/');
    if (slash == std::string_view::npos) {
      result.push_back({std::string(rest), false, each->second.size_bytes});
      ++each;
      continue;
    }
    const std::string folder(rest.substr(0, slash));
    result.push_back({folder, true, 0});
    // The first path behind all of the folder: '0' follows '/'.
    each = entries_.lower_bound(prefix + folder + '0');
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return result;
}

bool ZipStore::exists(const std::string& path) const { return find(path) != nullptr; }

bool ZipStore::is_directory(const std::string& path) const {
  const std::string name = name_of(path);
  if (name.empty()) return true;
  const auto first = entries_.lower_bound(name + "/");
  return first != entries_.end() && first->first.starts_with(name + "/");
}

/// Reads local headers, whose length only they tell, together, and the names in them.
void ZipStore::need_offsets(std::span<const Named* const> entries) const {
  std::vector<const Named*> unknown;
  size_t header_bytes = 0;
  {
    const MutexLock lock(fork_safe_lock());
    for (const Named* each : entries) {
      if (data_offsets_.contains(&each->second)) continue;
      unknown.push_back(each);
      header_bytes += kZipLocalHeaderBytes + each->first.size();
    }
  }
  if (unknown.empty()) return;
  Buffer headers(header_bytes);
  std::span<std::byte> rest = headers.span();
  std::vector<ReadRequest> reads;
  reads.reserve(unknown.size());
  for (const auto* each : unknown) {
    const size_t bytes = kZipLocalHeaderBytes + each->first.size();
    reads.push_back({path_, each->second.header_offset, rest.first(bytes)});
    rest = rest.subspan(bytes);
  }
  store_->read_many(reads);
  std::vector<uint64_t> offsets;
  offsets.reserve(unknown.size());
  for (size_t i = 0; i < unknown.size(); ++i) {
    offsets.push_back(with_place(
        [&] {
          return zip_data_offset(reads[i].out, unknown[i]->first, unknown[i]->second,
                                 archive_bytes_);
        },
        [&] { return join(path_, unknown[i]->first); }));
  }
  const MutexLock lock(fork_safe_lock());
  for (size_t i = 0; i < unknown.size(); ++i) {
    data_offsets_[&unknown[i]->second] = offsets[i];
  }
}

uint64_t ZipStore::data_offset(const ZipEntry& entry) const {
  const MutexLock lock(fork_safe_lock());
  return data_offsets_.at(&entry);
}

void ZipStore::expect_range(const ReadRequest& request, const ZipEntry& entry) const {
  if (entry.encrypted) {
    throw Unsupported("an encrypted entry of a zip archive is not read, " + request.path);
  }
  if (entry.method != kZipStored && entry.method != kZipDeflated) {
    throw Unsupported(concat("an entry of a zip archive compressed by method ", entry.method,
                             " is not read, only deflate", kMakeAgain, ", in ", request.path));
  }
  if (request.offset > entry.size_bytes || request.out.size() > entry.size_bytes - request.offset) {
    throw CorruptData(concat("truncated: wanted ", request.out.size(), " bytes at offset ",
                             request.offset, ", ends at ", entry.size_bytes, ", in ",
                             request.path));
  }
}

void ZipStore::read_many(std::span<const ReadRequest> requests) const {
  std::vector<const Named*> wanted;
  wanted.reserve(requests.size());
  for (const ReadRequest& request : requests) {
    wanted.push_back(&named(request.path));
    expect_range(request, wanted.back()->second);
  }
  need_offsets(wanted);
  std::vector<ReadRequest> reads;
  for (size_t i = 0; i < requests.size(); ++i) {
    const ReadRequest& request = requests[i];
    const ZipEntry& entry = wanted[i]->second;
    if (entry.method == kZipStored) {
      reads.push_back({path_, data_offset(entry) + request.offset, request.out});
    } else if (!request.out.empty()) {
      const auto bytes = inflated(entry, request.path);
      std::memcpy(request.out.data(), bytes->data() + request.offset, request.out.size());
    }
  }
  store_->read_many(reads);
  // A part of an entry has no checksum.
  for (size_t i = 0; i < requests.size(); ++i) {
    const ZipEntry& entry = wanted[i]->second;
    if (entry.method != kZipStored || requests[i].out.size() != entry.size_bytes) continue;
    with_place([&] { expect_crc32(requests[i].out, entry.crc32); },
               [&] { return requests[i].path; });
  }
}

std::shared_ptr<const Buffer> ZipStore::inflated(const ZipEntry& entry,
                                                 const std::string& path) const {
  {
    const MutexLock lock(fork_safe_lock());
    if (const auto found = kept_.find(&entry); found != kept_.end()) {
      return found->second;
    }
  }
  return with_place(
      [&] {
        if (entry.size_bytes > kMostInflatedBytes) {
          throw Unsupported(concat("a deflated entry of ", entry.size_bytes,
                                   " bytes is not read, at most ", kMostInflatedBytes, kMakeAgain));
        }
        if (entry.size_bytes > kMostUnlikelyBytes &&
            entry.size_bytes / kMostLikelyRatio > entry.stored_bytes) {
          throw Unsupported(concat("a deflated entry of ", entry.size_bytes, " bytes, stored in ",
                                   entry.stored_bytes, ", is not read", kMakeAgain));
        }
        expect_inflatable(entry.stored_bytes, entry.size_bytes);
        Buffer stored(entry.stored_bytes);
        store_->read(path_, data_offset(entry), stored.span());
        auto bytes = std::make_shared<Buffer>(entry.size_bytes);
        inflate_raw(stored.span(), bytes->span(), entry.crc32);
        const MutexLock lock(fork_safe_lock());
        if (entry.size_bytes <= kSmallBytes && kept_bytes_ + entry.size_bytes <= kKeptBytes &&
            kept_.try_emplace(&entry, bytes).second) {
          kept_bytes_ += entry.size_bytes;
        }
        return std::shared_ptr<const Buffer>(std::move(bytes));
      },
      [&] { return path; });
}

void ZipStore::will_read(std::span<const ObjectRange> ranges) const {
  if (!traits().remote) return;
  std::vector<const Named*> entries;
  std::vector<io::ByteRange> wanted;
  for (const ObjectRange& each : ranges) {
    const Named* const found = find(each.path);
    if (found == nullptr || each.range.offset >= found->second.size_bytes) continue;
    entries.push_back(found);
    const ZipEntry& entry = found->second;
    wanted.push_back(
        entry.method == kZipStored
            ? ByteRange{each.range.offset,
                        std::min(each.range.length, entry.size_bytes - each.range.offset)}
            : ByteRange{0, entry.stored_bytes});
  }
  need_offsets(entries);
  std::vector<ObjectRange> reads;
  reads.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    reads.push_back(
        {path_, {data_offset(entries[i]->second) + wanted[i].offset, wanted[i].length}});
  }
  store_->will_read(reads);
}

ZipEntries read_directory(const Store& store, const std::string& path, uint64_t archive_bytes) {
  Buffer tail(std::min(archive_bytes, kZipTailBytes));
  store.read(path, archive_bytes - tail.size(), tail.span());
  ZipDirectoryPlace place = find_zip_directory(tail.span(), archive_bytes);
  if (place.is_zip64_record) {
    Buffer record(place.range.length);
    store.read(path, place.range.offset, record.span());
    place = parse_zip64_record(record.span(), place.range.offset);
  }
  if (place.range.length > kMostDirectoryBytes) {
    throw Unsupported(concat("a zip archive whose directory has ", place.range.length,
                             " bytes is not read; unpack it"));
  }
  // A small directory was read with the tail.
  if (const uint64_t tail_offset = archive_bytes - tail.size(); place.range.offset >= tail_offset) {
    const auto directory =
        tail.span().subspan(place.range.offset - tail_offset, place.range.length);
    return parse_zip_directory(directory, place);
  }
  Buffer directory(place.range.length);
  store.read(path, place.range.offset, directory.span());
  return parse_zip_directory(directory.span(), place);
}

}  // namespace

StorePtr open_zip(const StorePtr& store, const std::string& path) {
  const std::string archive = normalize(path);
  const uint64_t bytes = store->size_bytes(archive);
  ZipEntries entries =
      with_place([&] { return read_directory(*store, archive, bytes); }, [&] { return archive; });
  return std::make_shared<ZipStore>(store, archive, bytes, std::move(entries));
}

}  // namespace penstock::io
