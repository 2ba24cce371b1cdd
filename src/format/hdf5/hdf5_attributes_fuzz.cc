// The bytes are the header of an object, or of a heap or tree of its attributes, which is looked
// for in every object of the file.

#include <nlohmann/json.hpp>

#include "format/hdf5/attributes.h"
#include "format/hdf5/hierarchy.h"
#include "format/hdf5/testing/fuzz_file.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hdf5::run_fuzz_input(data, size, [](const hdf5::FuzzInput& input) {
    const auto root = hdf5::open_hdf5(input.file->store(), "x.h5");
    for (const std::string& name : root->members()) {
      chunked::run_fuzzed([&] {
        if (const auto group = root->group(name)) {
          static_cast<void>(group->attributes().dump());
        } else if (const auto array = root->array(name)) {
          static_cast<void>(array->attributes().dump());
        }
      });
    }
  });
}
