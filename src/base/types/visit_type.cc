#include "base/types/visit_type.h"

#include <penstock/error.h>

#include <string>

namespace penstock::detail {

void refuse_type(DataType type, const char* values) {
  const std::string name(name_of(type));
  if (values == nullptr) throw Internal("not an integer type: " + name);
  throw Unsupported(std::string(values) + " of type " + name + " are not numbers");
}

}  // namespace penstock::detail
