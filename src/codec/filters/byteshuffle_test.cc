#include "codec/filters/byteshuffle.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing/test_seed.h"
#include "codec/testing/shuffled_cells.h"

namespace penstock::codec {
namespace {

TEST(Byteshuffle, EveryPathUndoesShuffling) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (const size_t width : {1U, 2U, 3U, 4U, 5U, 8U, 16U}) {
    for (const size_t length : lengths()) {
      for (const size_t tail : {size_t{0}, width - 1}) {
        Bytes cells(length * width + tail);
        for (std::byte& byte : cells) byte = static_cast<std::byte>(random());
        const size_t shift = random() % 33;
        Unaligned planes(shuffle(cells, width), shift);
        for (const VectorPath level : levels()) {
          Unaligned out(Bytes(cells.size()), random() % 33);
          unshuffle_bytes(width, planes.span(), out.span(), level);
          ASSERT_TRUE(std::equal(cells.begin(), cells.end(), out.span().begin()))
              << width << " x " << length << " level " << static_cast<int>(level);
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::codec
