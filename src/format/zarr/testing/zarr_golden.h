#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/byte_reader.h"
#include "base/testing/test_data.h"
#include "io/memory_store.h"
#include "io/testing/tar_archive.h"

// tests/data/zarr_golden.tar.gz in memory, as tests/golden/make_zarr_golden.py describes it. For
// tests only.

namespace penstock::format::zarr {

struct GoldenArray {
  std::string hierarchy, path, kind, shape;
  std::string expected;

  std::string name() const { return hierarchy + "/" + path; }
  std::vector<std::string> strings() const {
    std::vector<std::string> result;
    ByteReader reader(std::as_bytes(std::span(expected)));
    while (!reader.empty()) {
      result.emplace_back(reader.take_string(reader.read<uint32_t>("length"), "string"));
    }
    return result;
  }
};

struct ZarrGolden {
  std::shared_ptr<io::MemoryStore> store = std::make_shared<io::MemoryStore>();
  std::vector<GoldenArray> arrays;
};

inline ZarrGolden load_zarr_golden() {
  ZarrGolden golden;
  std::map<std::string, std::string> members;
  io::for_each_tar_member(io::inflate_file(test_data("zarr_golden.tar.gz")),
                          [&](const std::string& name, const std::string& contents) {
                            if (name.starts_with("expected")) {
                              members[name] = contents;
                            } else {
                              golden.store->put(name, contents);
                            }
                          });
  std::istringstream lines(members.at("expected.txt"));
  GoldenArray array;
  while (lines >> array.hierarchy >> array.path >> array.kind >> array.shape) {
    array.expected = members.at("expected/" + array.name());
    golden.arrays.push_back(array);
  }
  return golden;
}

}  // namespace penstock::format::zarr
