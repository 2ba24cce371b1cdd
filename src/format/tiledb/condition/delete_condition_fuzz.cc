// An inflated delete condition.

#include <penstock/error.h>

#include "format/tiledb/condition/delete_condition.h"

using namespace penstock;
using namespace penstock::format::tiledb;

namespace {

uint64_t member_bytes(const DeleteCondition& node) {
  uint64_t total = 0;
  for (size_t i = 0; i < node.member_count(); ++i) total += node.member(i).size();
  for (const DeleteCondition& child : node.children) total += member_bytes(child);
  return total;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto condition = DeleteCondition::parse(std::as_bytes(std::span(data, size)));
    condition_fields(condition);
    if (member_bytes(condition) > size) throw Internal("members are larger than the input");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
