#include "format/hdf5/hierarchy.h"

#include <penstock/error.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "format/hdf5/attributes.h"
#include "format/hdf5/file.h"
#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/links.h"
#include "format/hdf5/object_header.h"

namespace penstock::format::hdf5 {
namespace {

using chunked::ArrayPtr;
using chunked::GroupPtr;

class Hdf5Group final : public chunked::Group {
 public:
  Hdf5Group(FilePtr file, const ObjectHeader& header, std::string path)
      : file_(std::move(file)),
        path_(std::move(path)),
        attributes_(
            with_place([&] { return read_attributes(*file_, header); }, [&] { return path_; })),
        links_(with_place([&] { return read_links(*file_, header); }, [&] { return path_; })) {}

  const std::string& path() const override { return path_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  std::vector<std::string> members() const override {
    std::vector<std::string> names;
    for (const auto& [name, address] : links_) names.push_back(name);
    return names;
  }

  GroupPtr group(const std::string& name) const override {
    const size_t slash = name.find('/');
    if (slash != std::string::npos) {
      const GroupPtr first = group(name.substr(0, slash));
      return first ? first->group(name.substr(slash + 1)) : nullptr;
    }
    const auto header = open(name);
    if (!header) return nullptr;
    return with_place(
        [&]() -> GroupPtr {
          if (!is_group(*header)) return nullptr;
          return std::make_shared<Hdf5Group>(file_, *header, below(name));
        },
        [&] { return below(name); });
  }

  ArrayPtr array(const std::string& name) const override {
    const size_t slash = name.find('/');
    if (slash != std::string::npos) {
      const GroupPtr first = group(name.substr(0, slash));
      return first ? first->array(name.substr(slash + 1)) : nullptr;
    }
    const auto header = open(name);
    if (!header) return nullptr;
    return with_place(
        [&]() -> ArrayPtr {
          if (is_group(*header)) return nullptr;
          return std::make_shared<Hdf5Array>(file_, *header, below(name));
        },
        [&] { return below(name); });
  }

 private:
  std::string below(const std::string& name) const { return path_ + "/" + name; }

  /// The header of a member, or of the object that a reference names.
  std::optional<ObjectHeader> open(const std::string& name) const {
    std::optional<uint64_t> address;
    const auto found = links_.find(name);
    if (found != links_.end()) {
      address = found->second;
    } else {
      address = referenced_address(name);
    }
    if (!address) return std::nullopt;
    return with_place([&] { return ObjectHeader::read(*file_, *address); },
                      [&] { return below(name); });
  }

  const FilePtr file_;
  const std::string path_;
  const nlohmann::json attributes_;
  const std::map<std::string, uint64_t> links_;
};

}  // namespace

GroupPtr open_hdf5(const io::StorePtr& store, const std::string& path) {
  auto file = File::open(store, path);
  if (!file) return nullptr;
  return with_place(
      [&]() -> GroupPtr {
        const ObjectHeader root = ObjectHeader::read(*file, file->root_address());
        if (!is_group(root)) throw CorruptData("the root is no group");
        return std::make_shared<Hdf5Group>(file, root, path);
      },
      [&] { return path; });
}

}  // namespace penstock::format::hdf5
