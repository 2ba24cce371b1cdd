#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "io/testing/tar_archive.h"

// tests/data/hdf5_golden.tar.gz, as tests/golden/make_hdf5_golden.py describes it. For tests only.

namespace penstock::format::hdf5 {

struct GoldenArray {
  std::string name, kind, expected;
};

struct GoldenFile {
  std::string bytes;
  std::vector<GoldenArray> arrays;
};

inline std::map<std::string, GoldenFile> load_hdf5_golden() {
  std::map<std::string, std::string> members;
  io::for_each_tar_member(
      io::inflate_file(test_data("hdf5_golden.tar.gz")),
      [&](const std::string& name, const std::string& contents) { members[name] = contents; });
  std::map<std::string, GoldenFile> files;
  std::istringstream lines(members.at("expected.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string file;
    GoldenArray array;
    std::getline(fields, file, '\t');
    std::getline(fields, array.name, '\t');
    std::getline(fields, array.kind, '\t');
    array.expected = members.at("expected/" + file + "/" + array.name);
    files[file].bytes = members.at(file + ".h5");
    files[file].arrays.push_back(std::move(array));
  }
  return files;
}

}  // namespace penstock::format::hdf5
