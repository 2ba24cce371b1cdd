#pragma once

#include <penstock/error.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/testing/test_data.h"

namespace penstock::format::testing {

/// A stored experiment of tests/data, unpacked for the time of a test.
class Unpacked {
 public:
  explicit Unpacked(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("penstock_" + name + "_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    const std::string command =
        "tar -xzf '" + test_data(name + ".tar.gz") + "' -C '" + folder_.string() + "'";
    if (std::system(command.c_str()) != 0) throw IoError(command);
  }
  ~Unpacked() { std::filesystem::remove_all(folder_); }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  /// The folder of the experiment itself.
  std::string path() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.path().filename() == "obs") return entry.path().parent_path().string();
    }
    return folder_.string();
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace penstock::format::testing
