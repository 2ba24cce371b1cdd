// The bytes are the header of an object: its messages, and what they say of an array.

#include <numeric>

#include "format/hdf5/hdf5_array.h"
#include "format/hdf5/links.h"
#include "format/hdf5/testing/fuzz_file.h"

using namespace penstock;
using namespace penstock::format;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return hdf5::run_fuzz_input(data, size, [](const hdf5::FuzzInput& input) {
    const auto header = hdf5::ObjectHeader::read(*input.file, input.address);
    if (hdf5::is_group(header)) {
      hdf5::read_links(*input.file, header);
      return;
    }
    const hdf5::Hdf5Array array(input.file, header, "x");
    array.stored_bytes_per_chunk();
    const auto& info = array.info();
    if (info.shape.size() != 1 || info.cell_bytes > 1000) return;
    const uint64_t end = std::min<uint64_t>(info.shape[0], 100);
    info.strings == chunked::StringForm::kNone
        ? static_cast<void>(chunked::read_values(array, 0, end, 1))
        : static_cast<void>(chunked::read_strings(array, 0, end, 1));
  });
}
