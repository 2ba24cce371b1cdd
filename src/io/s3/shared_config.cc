#include "io/s3/shared_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "io/file_error.h"
#include "io/file_store.h"

namespace penstock::io {
namespace {

std::string_view trimmed(std::string_view text) {
  const char* const blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

ConfigFile read_config(const char* variable, const char* name_in_home) {
  std::string path = environment_text(variable);
  if (path.empty()) {
    const std::string home = environment_text("HOME");
    if (home.empty()) return {};
    path = home + name_in_home;
  } else if (path.starts_with("~/")) {
    path = environment_text("HOME") + path.substr(1);
  }
  return parse_config(text_of_file(path));
}

void add(const ConfigFile& file, const std::string& section, ConfigSection& profile) {
  const auto found = file.find(section);
  if (found != file.end()) profile.insert(found->second.begin(), found->second.end());
}

}  // namespace

std::string text_of_file(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0) return {};
  if (path == "/dev/null" || S_ISDIR(info.st_mode)) return {};
  expect_regular(path, info.st_mode);
  const Buffer bytes = FileStore().read_all(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string environment_text(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

ConfigFile parse_config(std::string_view text) {
  ConfigFile file;
  std::string section;
  std::string block;  // of the indented lines that follow
  bool in_section = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    const bool indented = raw.front() == ' ' || raw.front() == '\t';
    if (!indented && line.front() == '[') {
      const size_t close = line.find(']');
      in_section = close != std::string_view::npos;
      section = in_section ? trimmed(line.substr(1, close - 1)) : std::string_view{};
      // "[profile  name]" is "profile name".
      const size_t blank = section.find_first_of(" \t");
      if (blank != std::string::npos) {
        section = section.substr(0, blank) + " " + std::string(trimmed(section.substr(blank)));
      }
      if (in_section) file[section];
      block.clear();
      continue;
    }
    const size_t equals = line.find('=');
    if (!in_section || equals == std::string_view::npos) continue;
    const std::string name(trimmed(line.substr(0, equals)));
    std::string_view value = line.substr(equals + 1);
    for (const char* comment : {" #", " ;", "\t#", "\t;"})
      value = value.substr(0, value.find(comment));
    value = trimmed(value);
    if (!indented) block = value.empty() ? name : "";
    const bool nested = indented && !block.empty();
    file[section][nested ? block + "." + name : name] = value;
  }
  return file;
}

ConfigSection load_profile(const std::string& profile) {
  ConfigSection found;
  add(read_config("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"), profile, found);
  const ConfigFile config = read_config("AWS_CONFIG_FILE", "/.aws/config");
  add(config, "profile " + profile, found);
  if (profile == "default") add(config, "default", found);
  return found;
}

std::string profile_name(const std::string& given) {
  if (!given.empty()) return given;
  const std::string named = environment_text("AWS_PROFILE");
  return named.empty() ? "default" : named;
}

}  // namespace penstock::io
