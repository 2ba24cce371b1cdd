// The bytes are any part of the file: members of every group, dense or not, and where they lead.

#include "format/hdf5/hierarchy.h"
#include "format/hdf5/links.h"
#include "format/hdf5/testing/fuzz_file.h"

using namespace penstock;
using namespace penstock::format;

namespace {

void visit(const chunked::Group& group, int depth) {
  for (const std::string& name : group.members()) {
    chunked::run_fuzzed([&] {
      const auto inner = group.group(name);
      if (inner && depth < 4) visit(*inner, depth + 1);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hdf5::run_fuzz_input(data, size, [](const hdf5::FuzzInput& input) {
    const auto root = hdf5::open_hdf5(input.file->store(), "x.h5");
    visit(*root, 0);
    const auto path = std::string(reinterpret_cast<const char*>(input.bytes.data()),
                                  std::min<size_t>(input.bytes.size(), input.number));
    hdf5::find_object(*input.file, input.file->root_address(), path);
  });
}
