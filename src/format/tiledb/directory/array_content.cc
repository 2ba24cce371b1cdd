#include "format/tiledb/directory/array_content.h"

namespace penstock::format::tiledb {

std::string content_text(const ArrayDirectory& directory, bool dense) {
  std::string text = "tiledb array\nschema " + directory.latest_schema_name() + "\n";
  bool partly = false;
  for (const FragmentLocation& fragment : directory.fragments(dense)) {
    text += "fragment " + fragment.name.name + "\n";
    partly = partly || fragment.partly_in_range;
  }
  for (const DeleteCommit& commit : directory.deletes()) text += "delete " + commit.marker + "\n";
  if (partly) {
    text += "times " + std::to_string(directory.time_range().start) + " " +
            std::to_string(directory.time_range().end) + "\n";
  }
  return text;
}

}  // namespace penstock::format::tiledb
