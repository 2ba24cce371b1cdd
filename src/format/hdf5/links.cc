#include "format/hdf5/links.h"

#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "base/utf8.h"
#include "format/hdf5/heaps/fractal_heap.h"
#include "format/hdf5/trees/btree_v1.h"
#include "format/hdf5/trees/btree_v2.h"

namespace penstock::format::hdf5 {
namespace {

using Links = std::map<std::string, Link>;

/// Soft links that lead to one another; libhdf5 follows 16, too.
constexpr int kMostFollowed = 16;
/// Groups within groups that a path may name.
constexpr size_t kMostLevels = 64;

// ---- old groups: a symbol table

/// The names of an old group.
class LocalHeap {
 public:
  LocalHeap(const File& file, uint64_t address) {
    const size_t length = 8 + size_t{2} * file.length_bytes() + file.offset_bytes();
    const Buffer head = file.read(address, length, "the names of a group");
    ByteReader reader(head.span());
    expect_signature(reader, "HEAP");
    read_version(reader, 0, 0, "a heap of names");
    reader.skip(3, "names of a group");
    const uint64_t size = file.read_length(reader, "size of the names");
    file.read_length(reader, "free space");
    bytes_ = file.read(file.read_address(reader, "names of a group"), size, "the names of a group");
  }

  std::string name_at(uint64_t offset) const {
    if (offset >= bytes_.size()) {
      throw CorruptData(concat("a name at ", offset, " of ", bytes_.size(), " bytes of names"));
    }
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + offset;
    const size_t room = bytes_.size() - offset;
    const size_t length = strnlen(begin, room);
    if (length == room) throw CorruptData("a name without an end");
    named_ += length + 1;
    if (named_ > bytes_.size()) throw CorruptData("names of a group lie within one another");
    return {begin, length};
  }

 private:
  Buffer bytes_;
  mutable uint64_t named_ = 0;  ///< bytes of the names so far
};

/// Reads the members that a leaf of a symbol table names.
void read_symbols(const File& file, uint64_t address, const LocalHeap& names, Links& links) {
  constexpr uint32_t kSoftLink = 2;
  const Buffer head = file.read(address, 8, "members of a group");
  ByteReader reader(head.span());
  expect_signature(reader, "SNOD");
  read_version(reader, 1, 1, "a symbol table");
  reader.skip(1, "members of a group");
  const auto count = reader.read<uint16_t>("number of members");
  // libhdf5 stores the place of a name as a length.
  const uint64_t entry = uint64_t{file.offset_bytes()} + file.length_bytes() + 24;
  const Buffer bytes = file.read(address + 8, count * entry, "members of a group");
  ByteReader entries(bytes.span());
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t name_at = file.read_length(entries, "name of a member");
    const uint64_t header = file.read_address(entries, "address of a member");
    const auto cached = entries.read<uint32_t>("kind of a member");
    entries.skip(4, "member");
    const auto scratch = entries.take(16, "member");
    if (cached == kSoftLink) {
      ByteReader value(scratch);
      links[names.name_at(name_at)] = {Link::Kind::kSoft, 0,
                                       names.name_at(value.read<uint32_t>("target of a link"))};
    } else {
      links[names.name_at(name_at)] = {Link::Kind::kHard, header, {}};
    }
  }
}

void read_symbol_table(const File& file, const Message& message, Links& links) {
  ByteReader reader(message.body);
  const uint64_t tree = file.read_address(reader, "members of a group");
  const uint64_t heap = file.read_address(reader, "names of a group");
  const LocalHeap names(file, heap);
  walk_btree_v1(
      file, tree, BTree1Type::kGroup, file.length_bytes(),
      [&](ByteReader& /*key*/, uint64_t leaf) { read_symbols(file, leaf, names, links); });
}

// ---- new groups: link messages

void read_link(const File& file, ByteReader& reader, Links& links) {
  constexpr uint8_t kHard = 0, kSoft = 1;
  read_version(reader, 1, 1, "a link");
  const auto flags = reader.read<uint8_t>("flags of a link");
  const uint8_t kind = (flags & 0x08) != 0 ? reader.read<uint8_t>("kind of a link") : kHard;
  if ((flags & 0x04) != 0) reader.skip(8, "order of a link");
  if ((flags & 0x10) != 0) reader.skip(1, "characters of a link");
  const uint64_t length = read_number(reader, 1U << (flags & 0x03), "length of a link's name");
  const std::string name(reader.take_string(length, "name of a link"));
  if (kind == kHard) {
    links[name] = {Link::Kind::kHard, file.read_address(reader, "address of a member"), {}};
  } else if (kind == kSoft) {
    const auto bytes = reader.read<uint16_t>("length of a link's target");
    links[name] = {Link::Kind::kSoft, 0,
                   std::string(reader.take_string(bytes, "target of a link"))};
  } else {
    links[name] = {Link::Kind::kOther, 0, {}};
  }
}

void read_dense_links(const File& file, const Message& message, Links& links) {
  ByteReader reader(message.body);
  read_version(reader, 0, 0, "information of links");
  const auto flags = reader.read<uint8_t>("flags of links");
  if ((flags & 0x01) != 0) reader.skip(8, "order of links");
  const uint64_t heap_address = file.read_address(reader, "heap of links");
  const uint64_t index = file.read_address(reader, "index of links");
  if (file.is_undefined(heap_address) || file.is_undefined(index)) return;
  constexpr size_t kHashBytes = 4;
  FractalHeap heap(file, heap_address);
  walk_btree_v2(file, index, BTree2Type::kLinkNames, kHashBytes + heap.id_bytes(),
                [&](ByteReader& record) {
                  record.skip(kHashBytes, "hash of a name");
                  const Buffer link = heap.read(record.take(heap.id_bytes(), "id of a link"));
                  ByteReader body(link.span());
                  read_link(file, body, links);
                });
}

}  // namespace

bool is_group(const ObjectHeader& header) {
  for (const Message& message : header.messages()) {
    if (message.type == MessageType::kSymbolTable || message.type == MessageType::kLinkInfo ||
        message.type == MessageType::kLink) {
      return true;
    }
  }
  return false;
}

std::map<std::string, Link> read_links(const File& file, const ObjectHeader& header) {
  Links links;
  header.expect_one(MessageType::kSymbolTable);
  header.expect_one(MessageType::kLinkInfo);
  for (const Message& message : header.messages()) {
    if (message.type == MessageType::kSymbolTable) {
      read_symbol_table(file, message, links);
    } else if (message.type == MessageType::kLink) {
      ByteReader reader(message.body);
      read_link(file, reader, links);
    } else if (message.type == MessageType::kLinkInfo) {
      read_dense_links(file, message, links);
    }
  }
  std::erase_if(links, [](const auto& link) {
    return !is_utf8(link.first) || !io::is_plain_path(link.first) ||
           link.first.find('/') != std::string::npos;
  });
  return links;
}

namespace {

std::optional<uint64_t> find_below(const File& file, uint64_t group, std::string_view path,
                                   int follows) {
  if (path.starts_with('/')) group = file.root_address();
  size_t levels = 0;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty() || name == ".") continue;
    if (++levels > kMostLevels) return std::nullopt;
    const auto links = read_links(file, ObjectHeader::read(file, group));
    const auto found = links.find(name);
    if (found == links.end()) return std::nullopt;
    const Link& link = found->second;
    if (link.kind == Link::Kind::kHard) {
      group = link.address;
    } else if (link.kind == Link::Kind::kSoft && follows > 0) {
      const auto target = find_below(file, group, link.target, follows - 1);
      if (!target) return std::nullopt;
      group = *target;
    } else {
      throw Unsupported("the link '" + name +
                        "' leads to another file, or in a circle; write the file again with "
                        "anndata");
    }
  }
  return group;
}

}  // namespace

std::optional<uint64_t> find_object(const File& file, uint64_t group, std::string_view path) {
  return find_below(file, group, path, kMostFollowed);
}

}  // namespace penstock::format::hdf5
