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
#include "format/hdf5/object/object_header.h"

namespace penstock::format::hdf5 {
namespace {

using chunked::ArrayPtr;
using chunked::GroupPtr;

class Hdf5Group final : public chunked::Group {
 public:
  Hdf5Group(FilePtr file, uint64_t address, const ObjectHeader& header, std::string path)
      : file_(std::move(file)),
        address_(address),
        path_(std::move(path)),
        attributes_(
            with_place([&] { return read_attributes(*file_, header); }, [&] { return path_; })),
        links_(with_place([&] { return read_links(*file_, header); }, [&] { return path_; })) {}

  const std::string& path() const override { return path_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  std::vector<std::string> members() const override {
    std::vector<std::string> names;
    for (const auto& [name, link] : links_) names.push_back(name);
    return names;
  }

  GroupPtr group(const std::string& name) const override {
    return with_place(
        [&]() -> GroupPtr {
          const auto address = find(name);
          if (!address) return nullptr;
          const ObjectHeader header = ObjectHeader::read(*file_, *address);
          if (!is_group(header)) return nullptr;
          return std::make_shared<Hdf5Group>(file_, *address, header, below(name));
        },
        [&] { return below(name); });
  }

  ArrayPtr array(const std::string& name) const override {
    return with_place(
        [&]() -> ArrayPtr {
          const auto address = find(name);
          if (!address) return nullptr;
          const ObjectHeader header = ObjectHeader::read(*file_, *address);
          if (is_group(header)) return nullptr;
          return std::make_shared<Hdf5Array>(file_, header, below(name));
        },
        [&] { return below(name); });
  }

 private:
  std::string below(const std::string& name) const { return path_ + "/" + name; }

  /// The header of a member, whose name may have slashes, or of what a reference names.
  std::optional<uint64_t> find(const std::string& name) const {
    if (!io::is_plain_path(name)) return std::nullopt;  // names come from attributes
    const auto first = links_.find(name.substr(0, name.find('/')));
    if (first == links_.end()) return referenced_address(name);
    if (first->first.size() == name.size() && first->second.kind == Link::Kind::kHard) {
      return first->second.address;
    }
    return find_object(*file_, address_, name);
  }

  const FilePtr file_;
  const uint64_t address_;
  const std::string path_;
  const nlohmann::json attributes_;
  const std::map<std::string, Link> links_;
};

}  // namespace

GroupPtr open_hdf5(const io::StorePtr& store, const std::string& path) {
  auto file = File::open(store, path);
  if (!file) return nullptr;
  return with_place(
      [&]() -> GroupPtr {
        const ObjectHeader root = ObjectHeader::read(*file, file->root_address());
        if (!is_group(root)) throw CorruptData("the root is no group");
        return std::make_shared<Hdf5Group>(file, file->root_address(), root, path);
      },
      [&] { return path; });
}

}  // namespace penstock::format::hdf5
