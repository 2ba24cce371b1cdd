#include "format/tiledb/directory/timestamped_name.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace penstock::format::tiledb {
namespace {

constexpr std::string_view kVacuumSuffix = ".vac";

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// The text up to the next underscore, which is cut off with it.
std::string_view take_part(std::string_view& rest) {
  const size_t end = std::min(rest.find('_'), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

}  // namespace

std::optional<TimestampedName> TimestampedName::parse(std::string_view file_name) {
  TimestampedName result;
  result.name = file_name;
  const size_t dot = file_name.find('.');
  if (dot != std::string_view::npos) {
    result.suffix = file_name.substr(dot);
    file_name = file_name.substr(0, dot);
  }
  if (!file_name.starts_with("__")) return std::nullopt;
  file_name.remove_prefix(2);
  const auto start = parse_number<uint64_t>(take_part(file_name));
  const auto end = parse_number<uint64_t>(take_part(file_name));
  result.uuid = take_part(file_name);
  if (!start || !end || *start > *end || result.uuid.empty()) return std::nullopt;
  result.time = {*start, *end};
  if (!file_name.empty()) {
    const auto version = parse_number<uint32_t>(file_name);
    if (!version) return std::nullopt;
    result.version = *version;
  }
  return result;
}

bool operator<(const TimestampedName& a, const TimestampedName& b) {
  return a.time.start != b.time.start ? a.time.start < b.time.start : a.name < b.name;
}

std::vector<std::string> read_name_lines(const io::Store& store, const std::string& path) {
  const Buffer bytes = store.read_all(path);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> names;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string name = io::base_name(rest.substr(0, end));
    if (!name.empty()) names.push_back(name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

std::vector<TimestampedName> visible_files(const io::Store& store, const std::string& directory,
                                           const TimeRange& range) {
  std::vector<TimestampedName> files;
  std::set<std::string, std::less<>> replaced;
  for (const io::DirectoryEntry& entry : store.list(directory)) {
    auto name = TimestampedName::parse(entry.name);
    if (entry.is_directory || !name || !range.contains(name->time)) continue;
    if (name->suffix == kVacuumSuffix) {
      for (std::string& line : read_name_lines(store, io::join(directory, entry.name))) {
        replaced.insert(std::move(line));
      }
    } else if (name->suffix.empty()) {  // ".tmp" is a write that did not finish
      files.push_back(*std::move(name));
    }
  }
  std::erase_if(files, [&](const TimestampedName& file) { return replaced.contains(file.name); });
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace penstock::format::tiledb
