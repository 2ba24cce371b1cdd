#include "format/hdf5/file.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/concat.h"
#include "format/hdf5/checksum.h"

namespace penstock::format::hdf5 {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr uint64_t kFirstUserBlock = 512;
/// Pages of a store on this machine, and of one where a request takes long.
constexpr uint64_t kPage = uint64_t{64} << 10;
constexpr uint64_t kRemotePage = uint64_t{256} << 10;
/// Pages kept: 16 MiB, or 64 of a remote store.
constexpr size_t kMostPages = 256;
/// Most bytes of one piece of metadata. A dense attribute may be large; nothing else is.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

}  // namespace

uint64_t read_number(ByteReader& reader, unsigned bytes, std::string_view what) {
  const auto from = reader.take(bytes, what);
  uint64_t number = 0;
  std::memcpy(&number, from.data(), std::min<size_t>(from.size(), sizeof(number)));
  return number;
}

void expect_signature(ByteReader& reader, std::string_view signature) {
  const std::string_view found = reader.take_string(signature.size(), "signature");
  if (found != signature) {
    throw CorruptData(concat("expected the signature '", signature, "' of a block"));
  }
}

uint8_t read_version(ByteReader& reader, uint8_t first, uint8_t last, std::string_view what) {
  constexpr uint8_t kLastPlausible = 15;  // the highest in 25 years is 5
  const auto version = reader.read<uint8_t>("version");
  if (version > kLastPlausible) {
    throw CorruptData(concat(what, " of version ", unsigned{version}, ", which HDF5 has not"));
  }
  if (version < first || version > last) {
    throw Unsupported(concat(what, " of version ", unsigned{version}, " is not read, only ",
                             unsigned{first}, " to ", unsigned{last}));
  }
  return version;
}

void expect_checksum(std::span<const std::byte> bytes, std::string_view what) {
  ByteReader reader(bytes);
  if (bytes.size() < sizeof(uint32_t)) throw CorruptData(concat(what, " has no checksum"));
  const auto covered = reader.take(bytes.size() - sizeof(uint32_t), what);
  expect_checksum(covered, reader.read<uint32_t>("checksum"), what);
}

void expect_checksum(std::span<const std::byte> covered, uint32_t stored, std::string_view what) {
  if (metadata_checksum(covered) != stored && !IgnoreChecksums::active()) {
    throw CorruptData(concat("the checksum of ", what, " is wrong"));
  }
}

File::File(io::StorePtr store, std::string path)
    : store_(std::move(store)),
      path_(std::move(path)),
      version_(store_->traits().remote ? std::string() : store_->version(path_)),
      size_bytes_(store_->size_bytes(path_)),
      page_bytes_(store_->traits().remote ? kRemotePage : kPage) {}

std::shared_ptr<const File> File::open(const io::StorePtr& store, const std::string& path) {
  std::shared_ptr<File> file(new File(store, path));
  return file->find_superblock() ? file : nullptr;
}

void File::expect_unchanged() const {
  if (version_.empty() || store_->version(path_) == version_) return;
  throw CorruptData("the file was written since it was opened; open it again, in " + path_);
}

bool File::find_superblock() {
  for (uint64_t at = 0; at + kSignature.size() <= size_bytes_;
       at = at == 0 ? kFirstUserBlock : at * 2) {
    const Buffer bytes = read(at, kSignature.size(), "signature");
    if (std::memcmp(bytes.data(), kSignature.data(), kSignature.size()) != 0) continue;
    with_place([&] { read_superblock(at); }, [&] { return path_; });
    return true;
  }
  return false;
}

void File::read_superblock(uint64_t at) {
  constexpr uint64_t kMostSuperblock = 128;
  const Buffer bytes = read(at, std::min(kMostSuperblock, size_bytes_ - at), "superblock");
  ByteReader reader(bytes.span());
  reader.skip(kSignature.size(), "signature");
  const uint8_t version = read_version(reader, 0, 3, "a superblock");
  if (version < 2) reader.skip(4, "versions");
  offset_bytes_ = reader.read<uint8_t>("size of offsets");
  length_bytes_ = reader.read<uint8_t>("size of lengths");
  for (const unsigned size : {offset_bytes_, length_bytes_}) {
    if (size != 2 && size != 4 && size != 8) {
      throw CorruptData(concat("offsets and lengths have 2, 4 or 8 bytes, not ", size));
    }
  }
  undefined_ = ~uint64_t{0} >> (64 - 8 * offset_bytes_);
  uint64_t base = 0, end = 0;
  if (version < 2) {
    reader.skip(version == 0 ? 9 : 13, "sizes of nodes");
    base = read_address(reader, "base address");
    read_address(reader, "free space");
    end = read_address(reader, "end of file");
    read_address(reader, "driver information");
    read_length(reader, "name of the root group");
    root_address_ = read_address(reader, "root group");
  } else {
    reader.skip(1, "flags");
    base = read_address(reader, "base address");
    read_address(reader, "superblock extension");
    end = read_address(reader, "end of file");
    root_address_ = read_address(reader, "root group");
    const size_t covered = reader.offset();
    reader.skip(sizeof(uint32_t), "checksum of the superblock");
    expect_checksum(bytes.span().first(covered + sizeof(uint32_t)), "the superblock");
  }
  // Both moved with the superblock, if somebody cut or added a user block.
  if (end < base) throw CorruptData("the file ends before it begins");
  end = end - base + at;
  if (end > size_bytes_) {
    throw CorruptData(concat("the file was cut: it has ", size_bytes_, " bytes of ", end));
  }
  base_ = at;
}

uint64_t File::read_address(ByteReader& reader, std::string_view what) const {
  return read_number(reader, offset_bytes_, what);
}

uint64_t File::read_length(ByteReader& reader, std::string_view what) const {
  return read_number(reader, length_bytes_, what);
}

uint64_t File::position_of(uint64_t address, uint64_t length, std::string_view what) const {
  const uint64_t room = size_bytes_ - base_;
  if (address > room || length > room - address) {
    throw CorruptData(concat(what, " of ", length, " bytes at address ", address,
                             " lies outside of the file, which has ", size_bytes_, " bytes"));
  }
  return base_ + address;
}

Buffer File::read(uint64_t address, uint64_t length, std::string_view what) const {
  const uint64_t begin = position_of(address, length, what);
  if (length > kMostBytes) {
    throw Unsupported(concat(what, " of ", length, " bytes is larger than is read"));
  }
  Buffer out(length);
  if (length == 0) return out;
  const uint64_t first = begin / page_bytes_, last = (begin + length - 1) / page_bytes_;
  std::vector<uint64_t> numbers;
  for (uint64_t number = first; number <= last; ++number) numbers.push_back(number);
  const std::vector<Page> held = pages(numbers);
  for (size_t i = 0; i < held.size(); ++i) {
    const uint64_t page_begin = numbers[i] * page_bytes_;
    const uint64_t from = std::max(begin, page_begin);
    const uint64_t to = std::min(begin + length, page_begin + held[i]->size());
    std::memcpy(out.data() + (from - begin), held[i]->data() + (from - page_begin), to - from);
  }
  return out;
}

void File::will_read(std::span<const Place> places) const {
  std::vector<uint64_t> numbers;
  for (const Place& place : places) {
    if (place.length == 0) continue;
    const uint64_t begin = position_of(place.address, place.length, "metadata");
    for (uint64_t number = begin / page_bytes_;
         number <= (begin + place.length - 1) / page_bytes_ && numbers.size() < kMostPages / 2;
         ++number) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  static_cast<void>(pages(numbers));
}

std::vector<File::Page> File::pages(std::span<const uint64_t> numbers) const {
  std::vector<Page> found(numbers.size());
  while (true) {
    std::vector<size_t> own;
    {
      const MutexLock lock(mutex_);
      bool others = false;
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (found[i] != nullptr) continue;
        if (const auto held = pages_.find(numbers[i]); held != pages_.end()) {
          found[i] = held->second;
        } else if (reading_.insert(numbers[i]).second) {
          own.push_back(i);
        } else {
          others = true;
        }
      }
      if (own.empty() && !others) return found;
      if (own.empty()) {
        read_.wait(mutex_);
        continue;
      }
    }
    read_pages(numbers, own, found);
  }
}

void File::read_pages(std::span<const uint64_t> numbers, std::span<const size_t> places,
                      std::vector<Page>& found) const {
  std::vector<std::shared_ptr<Buffer>> made;
  std::vector<io::ReadRequest> requests;
  std::exception_ptr error;
  try {
    for (const size_t i : places) {
      const uint64_t begin = numbers[i] * page_bytes_;
      made.push_back(std::make_shared<Buffer>(std::min(page_bytes_, size_bytes_ - begin)));
      requests.push_back({path_, begin, made.back()->span()});
    }
    store_->read_many(requests);
  } catch (...) {
    error = std::current_exception();
  }
  const MutexLock lock(mutex_);
  // Many at a time are not kept, since they are not read again soon.
  const bool keeps = !error && places.size() <= kMostPages / 2;
  if (keeps && pages_.size() + places.size() > kMostPages) pages_.clear();
  for (size_t k = 0; k < places.size(); ++k) {
    const uint64_t number = numbers[places[k]];
    reading_.erase(number);
    if (error) continue;
    found[places[k]] = made[k];
    if (keeps) pages_[number] = made[k];
  }
  read_.notify_all();
  if (error) std::rethrow_exception(error);
}

}  // namespace penstock::format::hdf5
