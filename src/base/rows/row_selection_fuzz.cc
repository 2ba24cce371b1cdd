#include <penstock/error.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <cstdlib>

// Any bytes must throw CorruptData, or give a selection on which every call works.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using penstock::RowSelection;
  try {
    const auto read = RowSelection::deserialize({reinterpret_cast<const std::byte*>(data), size});
    const std::string bytes = read.serialize();
    const auto again = RowSelection::deserialize(std::as_bytes(std::span(bytes)));
    if (!(again == read) || again.fingerprint() != read.fingerprint()) std::abort();
    const auto part = RowSelection::range(1000, 300000);
    if ((read & part).size() + (read - part).size() != read.size()) std::abort();
    if ((read | part).size() != read.size() + part.size() - (read & part).size()) std::abort();
    if (!read.empty()) {
      const uint64_t middle = read.size() / 2;
      if (read.rank(read.at(middle)) != middle || !read.contains(read.at(middle))) std::abort();
      std::vector<int64_t> rows;
      read.copy_positions(middle, std::min<uint64_t>(1000, read.size() - middle), rows);
      for (size_t i = 1; i < rows.size(); ++i) {
        if (rows[i] <= rows[i - 1]) std::abort();
      }
    }
  } catch (const penstock::CorruptData&) {
  }
  return 0;
}
