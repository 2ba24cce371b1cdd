#include "format/chunked/made_group.h"

namespace penstock::format::chunked {

std::vector<std::string> MadeGroup::members() const {
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays_) names.push_back(name);
  for (const auto& [name, group] : groups_) names.push_back(name);
  return names;
}

GroupPtr MadeGroup::group(const std::string& name) const {
  if (const auto found = groups_.find(name); found != groups_.end()) return found->second;
  return other_ && !arrays_.contains(name) ? other_->group(name) : nullptr;
}

ArrayPtr MadeGroup::array(const std::string& name) const {
  if (const auto found = arrays_.find(name); found != arrays_.end()) return found->second;
  return other_ && !groups_.contains(name) ? other_->array(name) : nullptr;
}

void MadeGroup::will_read() const {
  if (other_) other_->will_read();
}

}  // namespace penstock::format::chunked
