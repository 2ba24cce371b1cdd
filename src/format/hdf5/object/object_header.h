#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory/buffer.h"
#include "format/hdf5/file.h"

// The header of an object (a group or an array): a list of messages. Source: HDF5 File Format
// Specification, IV.A.

namespace penstock::format::hdf5 {

enum class MessageType : uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kOldFillValue = 0x04,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kFilters = 0x0B,
  kAttribute = 0x0C,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

struct Message {
  MessageType type = MessageType::kDataspace;
  bool shared = false;              ///< the content is elsewhere
  uint64_t address = 0;             ///< of the content
  std::span<const std::byte> body;  ///< a view into the header
};

class ObjectHeader {
 public:
  /// Throws CorruptData or Unsupported.
  static ObjectHeader read(const File& file, uint64_t address);

  const std::vector<Message>& messages() const noexcept { return messages_; }
  /// The first message of a type; null if there is none. Throws Unsupported if it is shared.
  const Message* find(MessageType type) const;
  /// Throws CorruptData if there are several messages of a type.
  void expect_one(MessageType type) const;

 private:
  class Reader;
  std::vector<std::unique_ptr<Buffer>> blocks_;
  std::vector<Message> messages_;
};

}  // namespace penstock::format::hdf5
