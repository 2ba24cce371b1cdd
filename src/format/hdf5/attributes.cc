#include "format/hdf5/attributes.h"

#include <penstock/error.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/types/visit_type.h"
#include "base/utf8.h"
#include "format/hdf5/heaps/fractal_heap.h"
#include "format/hdf5/heaps/global_heap.h"
#include "format/hdf5/object/datatype.h"
#include "format/hdf5/object/messages.h"
#include "format/hdf5/trees/btree_v2.h"

namespace penstock::format::hdf5 {
namespace {

using nlohmann::json;

constexpr std::string_view kReferencePrefix = "object at ";
/// Values of one attribute. A table of more columns is not read.
constexpr uint64_t kMostValues = uint64_t{1} << 20;

template <typename T>
T big_endian_swapped(T value) {
  auto* const bytes = reinterpret_cast<std::byte*>(&value);
  std::reverse(bytes, bytes + sizeof(T));
  return value;
}

class AttributeReader {
 public:
  explicit AttributeReader(const File& file) : file_(file), texts_(file), heaps_(file) {}

  json run(const ObjectHeader& header) {
    json attributes = json::object();
    header.expect_one(MessageType::kAttributeInfo);
    for (const Message& message : header.messages()) {
      if (message.type == MessageType::kAttribute && !message.shared) {
        ByteReader reader(message.body);
        read_one(reader, attributes);
      } else if (message.type == MessageType::kAttributeInfo) {
        read_dense(message, attributes);
      }
    }
    return attributes;
  }

 private:
  void read_dense(const Message& message, json& attributes) {
    ByteReader reader(message.body);
    read_version(reader, 0, 0, "information of attributes");
    const auto flags = reader.read<uint8_t>("flags of attributes");
    if ((flags & 0x01) != 0) reader.skip(2, "order of attributes");
    const uint64_t heap_address = file_.read_address(reader, "heap of attributes");
    const uint64_t index = file_.read_address(reader, "index of attributes");
    if (file_.is_undefined(heap_address) || file_.is_undefined(index)) return;
    FractalHeap heap(file_, heap_address);
    walk_btree_v2(file_, index, BTree2Type::kAttributeNames, heap.id_bytes() + 1,
                  [&](ByteReader& record) {
                    const auto id = record.take(heap.id_bytes(), "id of an attribute");
                    const auto flags_of_message = record.read<uint8_t>("flags of an attribute");
                    if ((flags_of_message & 0x02) != 0) return;  // shared
                    const Buffer body = heap.read(id);
                    ByteReader attribute(body.span());
                    read_one(attribute, attributes);
                  });
  }

  void read_one(ByteReader& reader, json& attributes) {
    const uint8_t version = read_version(reader, 1, 3, "an attribute");
    const auto flags = reader.read<uint8_t>("flags of an attribute");
    const auto name_bytes = reader.read<uint16_t>("length of an attribute's name");
    const auto type_bytes = reader.read<uint16_t>("size of an attribute's datatype");
    const auto space_bytes = reader.read<uint16_t>("size of an attribute's dataspace");
    if (version == 3) reader.skip(1, "characters of a name");
    const auto padded = [&](uint64_t bytes) { return version == 1 ? (bytes + 7) / 8 * 8 : bytes; };
    auto name = reader.take_string(padded(name_bytes), "name of an attribute");
    name = name.substr(0, std::min<size_t>(name.find('\0'), name_bytes));
    ByteReader type_reader(reader.take(padded(type_bytes), "datatype of an attribute"));
    ByteReader space_reader(reader.take(padded(space_bytes), "dataspace of an attribute"));
    if (!is_utf8(name)) return;
    json& value = attributes[std::string(name)];
    if (version > 1 && (flags & 0x03) != 0) return;  // a shared datatype or dataspace
    try {
      const Datatype type = read_datatype(type_reader);
      value = read_value(type, read_dataspace(file_, space_reader), reader);
    } catch (const Unsupported&) {
      value = nullptr;
    }
  }

  json read_value(const Datatype& type, const Dataspace& space, ByteReader& reader) {
    if (space.is_null) return nullptr;
    uint64_t count = 1;
    for (const uint64_t length : space.shape) {
      if (__builtin_mul_overflow(count, length, &count)) {
        throw CorruptData("an attribute of more values than can be counted");
      }
    }
    reader.expect_items(count, type.bytes, "values of an attribute");
    if (count > kMostValues) throw Unsupported("so many values");
    if (space.shape.empty()) return read_cell(type, reader);
    json values = json::array();
    for (uint64_t i = 0; i < count; ++i) values.push_back(read_cell(type, reader));
    return values;
  }

  json read_cell(const Datatype& type, ByteReader& reader) {
    ByteReader cell(reader.take(type.bytes, "value of an attribute"));
    switch (type.type_class) {
      case TypeClass::kString: {
        const auto text = cell.take_string(type.bytes, "text");
        return text_or_null(text.substr(0, text.find('\0')));
      }
      case TypeClass::kVariable: {
        if (!type.is_string) throw Unsupported("sequences");
        const HeapReference reference = read_heap_reference(file_, cell);
        if (reference.length == 0) return "";
        texts_.count(reference.length, "texts of attributes");
        const auto text = collection(reference.collection).find(reference);
        return text_or_null({reinterpret_cast<const char*>(text.data()), text.size()});
      }
      case TypeClass::kReference:
        if (!type.is_object_reference) throw Unsupported("references to regions");
        return reference_text(file_.read_address(cell, "reference"));
      default:
        return read_number_of(type, cell);
    }
  }

  static json text_or_null(std::string_view text) {
    return is_utf8(text) ? json(std::string(text)) : json();
  }

  static json read_number_of(const Datatype& type, ByteReader& cell) {
    const DataType number = type.number();
    if (number == DataType::kBool) return cell.read<uint8_t>("value of an attribute") != 0;
    return visit_number(number, [&](auto identity) -> json {
      auto value = cell.read<typename decltype(identity)::type>("value of an attribute");
      return type.big_endian ? big_endian_swapped(value) : value;
    });
  }

  const HeapCollection& collection(uint64_t address) {
    const auto held = collections_.find(address);
    if (held != collections_.end()) return held->second;
    const HeapCollection& made = collections_.try_emplace(address, file_, address).first->second;
    heaps_.count(made.size_bytes(), "heaps of texts");
    return made;
  }

  const File& file_;
  Walk texts_, heaps_;
  std::map<uint64_t, HeapCollection> collections_;
};

}  // namespace

json read_attributes(const File& file, const ObjectHeader& header) {
  return AttributeReader(file).run(header);
}

std::string reference_text(uint64_t address) { return concat(kReferencePrefix, address); }

std::optional<uint64_t> referenced_address(std::string_view text) {
  if (!text.starts_with(kReferencePrefix)) return std::nullopt;
  text.remove_prefix(kReferencePrefix.size());
  uint64_t address = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), address);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return address;
}

}  // namespace penstock::format::hdf5
