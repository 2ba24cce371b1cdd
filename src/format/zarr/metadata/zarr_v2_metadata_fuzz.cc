// First byte: what the other bytes are. 0: .zarray, 1: .zmetadata of a whole hierarchy.

#include "format/zarr/testing/metadata_fuzz.h"

using namespace penstock;
using namespace penstock::format::zarr;

namespace {

void parse(std::span<const std::byte> input) {
  const std::string_view text = text_of(input.subspan(1));
  if (std::to_integer<unsigned>(input[0]) % 2 == 0) {
    expect_consistent(parse_v2_array(parse_json(text), nlohmann::json::object(), "array"));
    return;
  }
  const auto store = std::make_shared<io::MemoryStore>();
  store->put("root/.zgroup", R"({"zarr_format": 2})");
  store->put("root/.zmetadata", text);
  if (const auto root = open_zarr(store, "root")) visit_group(*root);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size != 0) run_fuzzed([&] { parse(std::as_bytes(std::span(data, size))); });
  return 0;
}
