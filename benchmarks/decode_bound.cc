// What decoding alone costs: every Zstandard frame of X/raw's columns, by libzstd, and where the
// title says so the un-shuffling of its bytes by our own kernel; nothing else. On x86 with AVX2.
//
//   g++ -O2 -std=c++20 -I src -I include -o decode_bound \
//       benchmarks/decode_bound.cc src/codec/byteshuffle_x86.cc -lzstd -pthread
//   ./decode_bound EXPERIMENT CELLS [THREADS]
//
// The cells/s that come out are what no reader can exceed that decompresses each tile once with
// libzstd, however it uses the cells. Penstock takes the row column from its compressed form
// (src/codec/zstd/run_decoder.h), so that the bound for it is that of the other two.

#include <zstd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "codec/byteshuffle.h"

namespace {

struct Frame {
  const char* data;
  uint32_t bytes;
  size_t element_bytes;  // 0: not shuffled
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Tiles as TileDB's format_spec/tile.md has them: chunks of parts, each part a frame.
void add_frames(const std::string& column, size_t element_bytes, std::vector<Frame>& frames) {
  const char* at = column.data();
  const char* const end = at + column.size();
  const auto take = [&](auto& value) {
    std::memcpy(&value, at, sizeof(value));
    at += sizeof(value);
  };
  while (at < end) {
    uint64_t chunks;
    for (take(chunks); chunks != 0; --chunks) {
      uint32_t original, stored, metadata, metadata_parts, data_parts;
      take(original), take(stored), take(metadata);
      const char* part = at + metadata;
      const char* const next = part + stored;
      take(metadata_parts), take(data_parts);
      for (uint32_t left = metadata_parts + data_parts; left != 0; --left) {
        uint32_t bytes;
        take(original), take(bytes);
        frames.push_back({part, bytes, element_bytes});
        part += bytes;
      }
      at = next;
    }
  }
}

void decompress(const std::vector<Frame>& frames) {
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  std::vector<std::byte> planes(size_t{1} << 20);
  std::vector<std::byte> elements(planes.size());
  for (const Frame& frame : frames) {
    const size_t size =
        ZSTD_decompressDCtx(context, planes.data(), planes.size(), frame.data, frame.bytes);
    if (ZSTD_isError(size)) std::abort();
    if (frame.element_bytes == 0) continue;
    // Less than a vector is left over, which is not worth counting.
    const size_t count = size / frame.element_bytes;
    penstock::codec::unshuffle_avx2(frame.element_bytes, planes.data(), count, count,
                                    elements.data());
  }
  ZSTD_freeDCtx(context);
}

/// Best of five: all frames by each of `threads`.
double seconds(const std::vector<Frame>& frames, int threads) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    std::barrier gate(threads + 1);
    std::vector<std::jthread> group;
    for (int i = 0; i < threads; ++i) {
      group.emplace_back([&] {
        gate.arrive_and_wait();
        decompress(frames);
      });
    }
    gate.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    group.clear();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return std::puts("decode_bound EXPERIMENT CELLS [THREADS]"), 2;
  const double cells = std::atof(arguments[2]);
  const int threads = count > 3 ? std::atoi(arguments[3]) : 2;
  const auto folder = std::filesystem::path(arguments[1]) / "ms/RNA/X/raw/__fragments";
  const char* const names[] = {"d0.tdb", "d1.tdb", "a0.tdb"};
  std::vector<std::string> files[3];
  for (const auto& fragment : std::filesystem::directory_iterator(folder)) {
    for (int i = 0; i < 3; ++i) files[i].push_back(read_file(fragment.path() / names[i]));
  }
  std::printf("libzstd %s\n", ZSTD_versionString());
  const struct {
    const char* title;
    std::vector<int> columns;
    bool unshuffled = false;
  } sets[] = {{"rows", {0}},
              {"genes", {1}},
              {"values", {2}},
              {"genes + values", {1, 2}},
              {"genes + values, un-shuffled", {1, 2}, true},
              {"rows + genes + values", {0, 1, 2}}};
  constexpr size_t kElementBytes[] = {8, 8, 4};
  for (const auto& set : sets) {
    std::vector<Frame> frames;
    for (const int column : set.columns) {
      const size_t element_bytes = set.unshuffled ? kElementBytes[column] : 0;
      for (const std::string& file : files[column]) add_frames(file, element_bytes, frames);
    }
    std::printf("%-28s %10.0f cells/s by one thread, %10.0f by %d\n", set.title,
                cells / seconds(frames, 1), threads * cells / seconds(frames, threads), threads);
  }
}
