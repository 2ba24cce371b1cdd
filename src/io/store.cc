#include "io/store.h"

#include <algorithm>

namespace penstock::io {
namespace {

constexpr std::string_view kFileScheme = "file://";

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

// A scheme is letters, digits, '+', '-' and '.' before "://" (RFC 3986); empty when there is none.
std::string scheme_of(std::string_view uri) {
  const size_t end = uri.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  const std::string_view scheme = uri.substr(0, end);
  const bool valid = scheme.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.") ==
                     std::string_view::npos;
  return valid ? std::string(scheme) : std::string();
}

Buffer Store::read_all(const std::string& path) const {
  Buffer bytes(size_bytes(path));
  read(path, 0, bytes.span());
  return bytes;
}

void Store::read_many(std::span<const ReadRequest> reads) const {
  for (const ReadRequest& request : reads) read(request.path, request.offset, request.out);
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

bool is_plain_path(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::string base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace penstock::io
