#pragma once

#include <penstock/error.h>
#include <zlib.h>

#include <cstring>
#include <string>

// Archives of golden data, in memory. For tests only.

namespace penstock::io {

inline std::string inflate_file(const std::string& path) {
  std::string bytes;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw NotFound(path);
  char block[65536];
  for (int got = gzread(file, block, sizeof(block)); got > 0;
       got = gzread(file, block, sizeof(block))) {
    bytes.append(block, static_cast<size_t>(got));
  }
  gzclose(file);
  return bytes;
}

/// Calls `take(name, contents)` for every plain file of a USTAR archive.
template <typename Take>
void for_each_tar_member(const std::string& tar, Take&& take) {
  for (size_t at = 0; at + 512 <= tar.size() && tar[at] != 0;) {
    const char* header = tar.data() + at;
    const auto field = [&](size_t offset, size_t size) {
      return std::string(header + offset, strnlen(header + offset, size));
    };
    const std::string prefix = field(345, 155);
    const std::string name = (prefix.empty() ? "" : prefix + "/") + field(0, 100);
    const size_t size = std::stoul(field(124, 12), nullptr, 8);
    if (header[156] == '0' || header[156] == 0) take(name, tar.substr(at + 512, size));
    at += 512 + (size + 511) / 512 * 512;
  }
}

}  // namespace penstock::io
