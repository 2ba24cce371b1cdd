#include "format/zarr/hierarchy.h"

#include <memory>
#include <utility>

#include "format/zarr/metadata/documents.h"
#include "format/zarr/metadata/json_text.h"
#include "format/zarr/metadata/metadata_field.h"
#include "format/zarr/zarr_array.h"

namespace penstock::format::zarr {
namespace {

using chunked::ArrayPtr;
using chunked::GroupPtr;

class ZarrGroup final : public chunked::Group {
 public:
  ZarrGroup(std::shared_ptr<const Documents> documents, std::string node, nlohmann::json attributes)
      : documents_(std::move(documents)),
        node_(std::move(node)),
        path_(documents_->path_of(node_)),
        attributes_(std::move(attributes)) {}

  const std::string& path() const override { return path_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  std::vector<std::string> members() const override { return documents_->members(node_); }

  GroupPtr group(const std::string& name) const override {
    // Names come from attributes, which are not trusted.
    if (!io::is_plain_path(name)) return nullptr;
    auto attributes = documents_->group(below(name));
    if (!attributes) return nullptr;
    return std::make_shared<ZarrGroup>(documents_, below(name), std::move(*attributes));
  }

  ArrayPtr array(const std::string& name) const override {
    if (!io::is_plain_path(name)) return nullptr;
    auto metadata = documents_->array(below(name));
    if (!metadata) return nullptr;
    return std::make_shared<ZarrArray>(documents_->store(), std::move(*metadata),
                                       documents_->array_document(below(name)));
  }

  void will_read() const override { documents_->store()->will_open(path_); }

 private:
  std::string below(const std::string& name) const {
    return node_.empty() ? name : node_ + "/" + name;
  }

  const std::shared_ptr<const Documents> documents_;
  const std::string node_;
  const std::string path_;
  const nlohmann::json attributes_;
};

}  // namespace

bool is_zarr_array(const io::Store& store, const std::string& path) {
  if (store.exists(io::join(path, ".zarray"))) return true;
  const auto document = read_json(store, io::join(path, "zarr.json"));
  return document && field(*document, "node_type") == "array";
}

GroupPtr open_zarr(const io::StorePtr& store, const std::string& path) {
  const auto documents = Documents::open(store, path);
  if (!documents) return nullptr;
  auto attributes = documents->group("");
  if (!attributes) return nullptr;
  return std::make_shared<ZarrGroup>(documents, "", std::move(*attributes));
}

}  // namespace penstock::format::zarr
