#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "format/chunked/array.h"

namespace penstock::format::chunked {

/// A group whose members lie elsewhere, under other names.
class MadeGroup final : public Group {
 public:
  MadeGroup(std::string path, nlohmann::json attributes)
      : path_(std::move(path)), attributes_(std::move(attributes)) {}

  void add(const std::string& name, ArrayPtr array) { arrays_[name] = std::move(array); }
  void add(const std::string& name, GroupPtr group) { groups_[name] = std::move(group); }
  /// Where what is not a member is looked for, such as what an attribute refers to.
  void look_in(GroupPtr other) { other_ = std::move(other); }

  const std::string& path() const override { return path_; }
  const nlohmann::json& attributes() const override { return attributes_; }
  std::vector<std::string> members() const override;
  GroupPtr group(const std::string& name) const override;
  ArrayPtr array(const std::string& name) const override;
  void will_read() const override;

 private:
  const std::string path_;
  const nlohmann::json attributes_;
  std::map<std::string, ArrayPtr> arrays_;
  std::map<std::string, GroupPtr> groups_;
  GroupPtr other_;
};

}  // namespace penstock::format::chunked
