#include "format/hdf5/object/object_header.h"

#include <penstock/error.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "base/concat.h"

namespace penstock::format::hdf5 {
namespace {

constexpr uint8_t kSharedFlag = 0x02;
constexpr MessageType kNothing{0};
/// Header and continuation blocks of one object; real ones have a few.
constexpr size_t kMostBlocks = 1024;
/// Bytes of them all. Attributes of more than 64 KiB are not in the header.
constexpr uint64_t kMostHeader = uint64_t{64} << 20;

struct Block {
  uint64_t address = 0, length = 0;
};

}  // namespace

class ObjectHeader::Reader {
 public:
  Reader(const File& file, ObjectHeader& header) : file_(file), header_(header) {}

  void run(uint64_t address) {
    constexpr uint64_t kLeastHeader = 16;
    const Buffer start = file_.read(address, kLeastHeader, "an object header");
    ByteReader reader(start.span());
    if (reader.take_string(4, "signature") == "OHDR") {
      start_v2(address);
    } else {
      start_v1(address, start.span());
    }
    while (!continuations_.empty()) {
      const Block block = continuations_.front();
      continuations_.pop_front();
      read_block(block);
    }
  }

 private:
  void start_v1(uint64_t address, std::span<const std::byte> start) {
    constexpr uint64_t kPrefix = 16;
    ByteReader reader(start);
    read_version(reader, 1, 1, "an object header");
    reader.skip(1 + 2 + 4, "an object header");
    const auto length = reader.read<uint32_t>("size of an object header");
    read_block({address + kPrefix, length});
  }

  void start_v2(uint64_t address) {
    constexpr uint64_t kMostPrefix = 34;
    const uint64_t room = file_.size_bytes() - file_.position_of(address, 0, "an object header");
    const Buffer start =
        file_.read(address, std::min<uint64_t>(kMostPrefix, room), "an object header");
    ByteReader reader(start.span());
    expect_signature(reader, "OHDR");
    read_version(reader, 2, 2, "an object header");
    version_ = 2;
    const auto flags = reader.read<uint8_t>("flags");
    has_order_ = (flags & 0x04) != 0;
    if ((flags & 0x20) != 0) reader.skip(16, "times");
    if ((flags & 0x10) != 0) reader.skip(4, "numbers of attributes");
    const uint64_t length = read_number(reader, 1U << (flags & 0x03), "size of an object header");
    // The checksum is of the prefix too.
    const uint64_t prefix = reader.offset();
    const Block whole{address, checked_block(prefix, length)};
    const auto bytes = add(whole);
    expect_checksum(bytes, "an object header");
    parse(bytes.subspan(prefix, length), address + prefix);
  }

  /// A block without prefix (version 1), or a continuation block (version 2).
  void read_block(const Block& block) {
    const auto bytes = add(block);
    if (version_ == 1) return parse(bytes, block.address);
    ByteReader reader(bytes);
    expect_signature(reader, "OCHK");
    expect_checksum(bytes, "an object header");
    const auto messages = reader.take(reader.remaining() - sizeof(uint32_t), "messages");
    parse(messages, block.address + 4);
  }

  static uint64_t checked_block(uint64_t prefix, uint64_t length) {
    if (length > UINT32_MAX) throw CorruptData(concat("an object header of ", length, " bytes"));
    return prefix + length + sizeof(uint32_t);
  }

  std::span<const std::byte> add(const Block& block) {
    if (!addresses_.insert(block.address).second) {
      throw CorruptData("an object header refers to itself");
    }
    bytes_ += std::min(block.length, kMostHeader + 1);
    if (header_.blocks_.size() == kMostBlocks || bytes_ > kMostHeader) {
      throw CorruptData("an object header refers to itself, or has too many blocks");
    }
    header_.blocks_.push_back(
        std::make_unique<Buffer>(file_.read(block.address, block.length, "an object header")));
    return std::as_const(*header_.blocks_.back()).span();
  }

  void parse(std::span<const std::byte> bytes, uint64_t address) {
    const size_t head = version_ == 1 ? 8 : (has_order_ ? 6 : 4);
    ByteReader reader(bytes);
    while (reader.remaining() >= head) {
      Message message;
      if (version_ == 1) {
        message.type = static_cast<MessageType>(reader.read<uint16_t>("type of a message"));
      } else {
        message.type = static_cast<MessageType>(reader.read<uint8_t>("type of a message"));
      }
      const auto length = reader.read<uint16_t>("size of a message");
      const auto flags = reader.read<uint8_t>("flags of a message");
      if (version_ == 1) reader.skip(3, "flags of a message");
      if (version_ == 2 && has_order_) reader.skip(2, "order of a message");
      message.shared = (flags & kSharedFlag) != 0;
      message.address = address + reader.offset();
      message.body = reader.take(length, "a message");
      if (message.type == kNothing) continue;
      if (message.type == MessageType::kContinuation) {
        add_continuation(message);
      } else {
        header_.messages_.push_back(message);
      }
    }
  }

  void add_continuation(const Message& message) {
    ByteReader reader(message.body);
    Block block;
    block.address = file_.read_address(reader, "continuation");
    block.length = file_.read_length(reader, "size of a continuation");
    continuations_.push_back(block);
  }

  const File& file_;
  ObjectHeader& header_;
  int version_ = 1;
  bool has_order_ = false;
  std::deque<Block> continuations_;
  uint64_t bytes_ = 0;
  std::set<uint64_t> addresses_;
};

ObjectHeader ObjectHeader::read(const File& file, uint64_t address) {
  ObjectHeader header;
  Reader(file, header).run(address);
  return header;
}

void ObjectHeader::expect_one(MessageType type) const {
  const auto count = std::count_if(messages_.begin(), messages_.end(),
                                   [&](const Message& message) { return message.type == type; });
  if (count > 1) throw CorruptData("an object has several lists of members or attributes");
}

const Message* ObjectHeader::find(MessageType type) const {
  for (const Message& message : messages_) {
    if (message.type != type) continue;
    if (message.shared) {
      throw Unsupported(
          "a message that objects share (a committed datatype) is not read; write the file again "
          "with anndata");
    }
    return &message;
  }
  return nullptr;
}

}  // namespace penstock::format::hdf5
