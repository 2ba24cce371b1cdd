#include "format/hdf5/trees/btree_v2.h"

#include <penstock/error.h>

#include <bit>
#include <vector>

#include "base/concat.h"

namespace penstock::format::hdf5 {
namespace {

/// Signature, version, type and checksum of a node.
constexpr uint64_t kNodeFrame = 4 + 1 + 1 + 4;
constexpr unsigned kMostDepth = 16;

/// What nodes of a depth hold; 0 are the leaves.
struct Depth {
  uint64_t most_records = 0;
  uint64_t most_below = 0;   ///< records of a whole subtree
  unsigned below_bytes = 0;  ///< of the number of records of a subtree
};

class Tree {
 public:
  Tree(const File& file, uint64_t address, BTree2Type type, size_t least_record_bytes)
      : file_(file), type_(type), walk_(file) {
    const size_t length =
        4 + 1 + 1 + 4 + 2 + 2 + 1 + 1 + file.offset_bytes() + 2 + file.length_bytes() + 4;
    const Buffer bytes = file.read(address, length, "a B-tree");
    expect_checksum(bytes.span(), "a B-tree");
    ByteReader reader(bytes.span());
    expect_signature(reader, "BTHD");
    read_version(reader, 0, 0, "a B-tree");
    const auto stored_type = reader.read<uint8_t>("type of a B-tree");
    if (stored_type != static_cast<uint8_t>(type)) {
      throw CorruptData(concat("a B-tree of type ", unsigned{stored_type}, " in place of ",
                               static_cast<unsigned>(type)));
    }
    node_bytes_ = reader.read<uint32_t>("size of a node");
    record_bytes_ = reader.read<uint16_t>("size of a record");
    depth_ = reader.read<uint16_t>("depth of a B-tree");
    reader.skip(2, "shares of a B-tree");
    root_ = file.read_address(reader, "root of a B-tree");
    root_records_ = reader.read<uint16_t>("records of the root");
    if (record_bytes_ < least_record_bytes || node_bytes_ <= kNodeFrame || depth_ > kMostDepth) {
      throw CorruptData(concat("a B-tree of depth ", depth_, " with records of ", record_bytes_,
                               " bytes in nodes of ", node_bytes_));
    }
    find_depths();
  }

  void walk(const std::function<void(ByteReader&)>& visit) {
    if (!file_.is_undefined(root_)) walk_node(root_, depth_, root_records_, visit);
  }

 private:
  struct Child {
    uint64_t address = 0, records = 0;
  };

  void find_depths() {
    depths_.resize(depth_ + 1U);
    depths_[0].most_records = (node_bytes_ - kNodeFrame) / record_bytes_;
    depths_[0].most_below = depths_[0].most_records;
    count_bytes_ = bytes_for(depths_[0].most_records);
    for (unsigned i = 1; i <= depth_; ++i) {
      Depth& depth = depths_[i];
      const uint64_t pointer = pointer_bytes(i);
      if (node_bytes_ < kNodeFrame + pointer) throw CorruptData("a B-tree of too small nodes");
      depth.most_records = (node_bytes_ - kNodeFrame - pointer) / (record_bytes_ + pointer);
      const Depth& below = depths_[i - 1];
      if (__builtin_mul_overflow(depth.most_records + 1, below.most_below, &depth.most_below) ||
          __builtin_add_overflow(depth.most_below, depth.most_records, &depth.most_below)) {
        throw CorruptData("a B-tree of more records than can be counted");
      }
      depth.below_bytes = bytes_for(depth.most_below);
    }
  }

  uint64_t pointer_bytes(unsigned depth) const {
    return file_.offset_bytes() + count_bytes_ + depths_[depth - 1].below_bytes;
  }

  void walk_node(uint64_t address, unsigned depth, uint64_t records,
                 const std::function<void(ByteReader&)>& visit) {
    if (records > depths_[depth].most_records) {
      throw CorruptData(concat("a node of a B-tree has ", records, " records, ",
                               depths_[depth].most_records, " fit"));
    }
    const uint64_t pointers = depth == 0 ? 0 : (records + 1) * pointer_bytes(depth);
    const uint64_t length = kNodeFrame + records * record_bytes_ + pointers;
    walk_.count(length, "nodes of a B-tree");
    const Buffer bytes = file_.read(address, length, "a node of a B-tree");
    expect_checksum(bytes.span(), "a node of a B-tree");
    ByteReader reader(bytes.span());
    expect_signature(reader, depth == 0 ? "BTLF" : "BTIN");
    read_version(reader, 0, 0, "a node of a B-tree");
    if (reader.read<uint8_t>("type of a node") != static_cast<uint8_t>(type_)) {
      throw CorruptData("a node of another B-tree");
    }
    const auto stored = reader.take(records * record_bytes_, "records");
    const std::vector<Child> below = read_children(reader, depth, records);
    for (uint64_t i = 0; i <= records; ++i) {
      if (depth != 0) walk_node(below[i].address, depth - 1, below[i].records, visit);
      if (i == records) break;
      ByteReader record(stored.subspan(i * record_bytes_, record_bytes_));
      visit(record);
    }
  }

  std::vector<Child> read_children(ByteReader& reader, unsigned depth, uint64_t records) const {
    std::vector<Child> children;
    if (depth == 0) return children;
    std::vector<File::Place> places;
    for (uint64_t i = 0; i <= records; ++i) {
      Child child;
      child.address = file_.read_address(reader, "child");
      child.records = read_number(reader, count_bytes_, "records of a child");
      reader.skip(depths_[depth - 1].below_bytes, "records below a child");
      children.push_back(child);
      places.push_back({child.address, kNodeFrame});
    }
    file_.will_read(places);
    return children;
  }

  const File& file_;
  const BTree2Type type_;
  Walk walk_;
  uint64_t node_bytes_ = 0, record_bytes_ = 0, root_ = 0, root_records_ = 0;
  unsigned depth_ = 0;
  unsigned count_bytes_ = 1;
  std::vector<Depth> depths_;
};

}  // namespace

void walk_btree_v2(const File& file, uint64_t header, BTree2Type type, size_t least_record_bytes,
                   const std::function<void(ByteReader& record)>& visit) {
  Tree(file, header, type, least_record_bytes).walk(visit);
}

}  // namespace penstock::format::hdf5
