#include "format/csc/forward_window.h"

#include <algorithm>

#include "format/chunked/read_array.h"

namespace penstock::format {

ForwardWindow::ForwardWindow(const chunked::Array& array, uint64_t cells, unsigned threads)
    : array_(array), threads_(threads) {
  const uint64_t chunk = array.info().chunk_shape[0];
  length_ = std::max<uint64_t>(1, cells / chunk) * chunk;
}

bool ForwardWindow::move_to(uint64_t cell) {
  if (begin_ <= cell && cell < end_) return false;
  const uint64_t count = array_.info().shape[0];
  const uint64_t begin = cell - cell % length_;
  const uint64_t end = begin + std::min(length_, count - begin);
  release();  // so that two windows are never in memory
  cells_ = chunked::read_values(array_, begin, end, threads_);
  begin_ = begin;
  end_ = end;
  return true;
}

void ForwardWindow::release() {
  begin_ = end_ = 0;
  cells_ = {};
}

}  // namespace penstock::format
