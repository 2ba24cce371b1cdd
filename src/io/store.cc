#include "io/store.h"

#include <penstock/error.h>

namespace penstock::io {
namespace {

constexpr std::string_view kFileScheme = "file://";

// A scheme is letters, digits, '+', '-' and '.' before "://" (RFC 3986); empty when there is none.
std::string_view scheme_of(std::string_view uri) {
  const size_t end = uri.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  const std::string_view scheme = uri.substr(0, end);
  const bool valid = scheme.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.") ==
                     std::string_view::npos;
  return valid ? scheme : std::string_view{};
}

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

Buffer Store::read_all(const std::string& path) const {
  Buffer bytes(size_bytes(path));
  read(path, 0, bytes.span());
  return bytes;
}

StorePtr store_for(std::string_view uri) {
  const std::string_view scheme = scheme_of(uri);
  if (scheme.empty() || scheme == "file") return file_store();
  throw Unsupported("no store for scheme \"" + std::string(scheme) +
                    "\"; copy the data to a local disk and give its path: " + std::string(uri));
}

std::string join(std::string_view directory, std::string_view name) {
  while (!directory.empty() && directory.back() == '/') directory.remove_suffix(1);
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  std::string path;
  path.reserve(directory.size() + 1 + name.size());
  path.append(directory).append(1, '/').append(name);
  return path;
}

std::string normalize(std::string_view uri) {
  if (uri.starts_with(kFileScheme)) uri.remove_prefix(kFileScheme.size());
  return std::string(without_trailing_slashes(uri));
}

std::string base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace penstock::io
