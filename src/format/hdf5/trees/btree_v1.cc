#include "format/hdf5/trees/btree_v1.h"

#include <penstock/error.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/concat.h"

namespace penstock::format::hdf5 {
namespace {

/// Nodes whose pages are asked for together.
constexpr size_t kTogether = 256;

struct Node {
  unsigned level = 0;
  unsigned entries = 0;
  Buffer bytes;  ///< keys and children
};

class TreeWalk {
 public:
  TreeWalk(const File& file, BTree1Type type, size_t key_bytes)
      : file_(file), type_(type), key_bytes_(key_bytes), walk_(file) {}

  Node read_node(uint64_t address) {
    const size_t head = 8 + size_t{2} * file_.offset_bytes();
    const Buffer start = file_.read(address, head, "a node of a B-tree");
    ByteReader reader(start.span());
    expect_signature(reader, "TREE");
    const auto type = reader.read<uint8_t>("type of a node");
    Node node;
    node.level = reader.read<uint8_t>("level of a node");
    node.entries = reader.read<uint16_t>("entries of a node");
    if (type != static_cast<uint8_t>(type_)) {
      throw CorruptData(concat("a node of a B-tree is of type ", unsigned{type}));
    }
    walk_.count(head + node.entries * entry_bytes() + key_bytes_, "nodes of a B-tree");
    node.bytes =
        file_.read(address + head, node.entries * entry_bytes() + key_bytes_, "a node of a B-tree");
    return node;
  }

  size_t entry_bytes() const { return key_bytes_ + file_.offset_bytes(); }

  std::vector<uint64_t> children(const Node& node) const {
    std::vector<uint64_t> addresses;
    ByteReader reader(node.bytes.span());
    for (unsigned i = 0; i < node.entries; ++i) {
      reader.skip(key_bytes_, "key");
      addresses.push_back(file_.read_address(reader, "child"));
    }
    return addresses;
  }

  // Depth first, so that entries come in order. The children of a node are announced together.
  void visit(const Node& node, const std::function<void(ByteReader&, uint64_t)>& leaf) {
    const std::vector<uint64_t> below = children(node);
    if (node.level == 0) {
      for (unsigned i = 0; i < node.entries; ++i) {
        ByteReader key(std::span(node.bytes.span()).subspan(i * entry_bytes(), key_bytes_));
        leaf(key, below[i]);
      }
      return;
    }
    for (size_t begin = 0; begin < below.size(); begin += kTogether) {
      const size_t end = std::min(below.size(), begin + kTogether);
      std::vector<File::Place> places;
      for (size_t i = begin; i < end; ++i) places.push_back({below[i], 1});
      file_.will_read(places);
      for (size_t i = begin; i < end; ++i) {
        const Node child = read_node(below[i]);
        if (child.level + 1 != node.level) {
          throw CorruptData(
              concat("below a node of level ", node.level, " is one of level ", child.level));
        }
        visit(child, leaf);
      }
    }
  }

 private:
  const File& file_;
  const BTree1Type type_;
  const size_t key_bytes_;
  Walk walk_;
};

}  // namespace

void walk_btree_v1(const File& file, uint64_t root, BTree1Type type, size_t key_bytes,
                   const std::function<void(ByteReader& key, uint64_t child)>& leaf) {
  TreeWalk walk(file, type, key_bytes);
  walk.visit(walk.read_node(root), leaf);
}

}  // namespace penstock::format::hdf5
