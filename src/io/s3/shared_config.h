#pragma once

#include <map>
#include <string>
#include <string_view>

// The files that AWS tools share: ~/.aws/config and ~/.aws/credentials. Source: AWS SDKs and Tools
// Reference Guide, "Shared config and credentials files". Settings of a nested block ("s3 =" and
// indented lines) get a dotted name: "s3.addressing_style". The parser accepts any text.

namespace penstock::io {

using ConfigSection = std::map<std::string, std::string>;
using ConfigFile = std::map<std::string, ConfigSection>;

ConfigFile parse_config(std::string_view text);

/// Settings of a profile; credentials take precedence over config. Empty if neither file has it.
/// Files are AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE, or those in the home folder.
ConfigSection load_profile(const std::string& profile);

/// `given`, else AWS_PROFILE, else "default".
std::string profile_name(const std::string& given);

std::string environment_text(const char* name);

/// The text of a file; empty if it is missing, unreadable or /dev/null. Throws IoError for any
/// other device or a pipe, which could block the reader.
std::string text_of_file(const std::string& path);

}  // namespace penstock::io
