#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/chunked/testing/visit_group.h"
#include "format/hdf5/checksum.h"
#include "format/hdf5/file.h"
#include "format/hdf5/testing/hdf5_golden.h"
#include "io/memory_store.h"

// Inputs of the fuzz targets of one structure: a file that h5py wrote, in which other bytes stand
// at one place. So what these refer to is there. For tests only.
//
//   file (1 byte) | address (4 bytes) | number (1 byte) | bytes that stand there

namespace penstock::format::hdf5 {

struct FuzzInput {
  FilePtr file;
  uint64_t address = 0;
  uint8_t number = 0;  ///< for what else a target has to choose
  std::span<const std::byte> bytes;
};

/// Nothing if the input is too short, or its file does not open.
inline std::optional<FuzzInput> read_fuzz_input(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 6;
  static const auto golden = [] {
    std::vector<std::string> files;
    for (auto& [name, file] : load_hdf5_golden()) files.push_back(std::move(file.bytes));
    return files;
  }();
  if (size < kHead) return std::nullopt;
  std::string bytes = golden[data[0] % golden.size()];
  FuzzInput input;
  uint32_t address = 0;
  std::memcpy(&address, data + 1, sizeof(address));
  input.address = address % bytes.size();
  input.number = data[kHead - 1];
  input.bytes = std::as_bytes(std::span(data, size)).subspan(kHead);
  const size_t length = std::min<size_t>(input.bytes.size(), bytes.size() - input.address);
  std::memcpy(bytes.data() + input.address, input.bytes.data(), length);
  const auto store = std::make_shared<io::MemoryStore>();
  store->put("x.h5", bytes);
  input.file = File::open(store, "x.h5");
  if (!input.file) return std::nullopt;
  return input;
}

/// Runs `body(input)` on an input. Checksums of metadata are believed, so that a search gets behind
/// them; errors of what is stored are swallowed.
template <typename Body>
int run_fuzz_input(const uint8_t* data, size_t size, Body&& body) {
  const IgnoreChecksums ignore;
  chunked::run_fuzzed([&] {
    if (const auto input = read_fuzz_input(data, size)) body(*input);
  });
  return 0;
}

}  // namespace penstock::format::hdf5
