#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// The folder tests/data; cmake/PenstockLayers.cmake writes the file that defines it. One file has
/// the path, so that ccache has all others for a clone in another folder.
extern const char kTestData[];

/// The path of a file or folder of tests/data.
inline std::string test_data(std::string_view name) {
  return std::string(kTestData).append("/").append(name);
}

}  // namespace penstock
