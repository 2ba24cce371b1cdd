#include "format/row_bands.h"

#include <penstock/error.h>

namespace penstock::format {

void refuse_stored_by_columns(const std::string& path) {
  throw Unsupported(
      "the matrix is stored by genes (CSC), so that each batch would read all of it; make a pack, "
      "which is stored by cells: `penstock pack SOURCE PACK` or penstock.pack(source, pack), in " +
      path);
}

}  // namespace penstock::format
