#pragma once

#include <map>
#include <string>
#include <string_view>

// The files that AWS tools share: ~/.aws/config and ~/.aws/credentials. Source: AWS SDKs and Tools
// Reference Guide, "Shared config and credentials files". Settings of a nested block ("s3 =" and
// indented lines) are named with a dot, "s3.addressing_style". The parser takes any text.

namespace penstock::io {

using ConfigSection = std::map<std::string, std::string>;
using ConfigFile = std::map<std::string, ConfigSection>;

ConfigFile parse_config(std::string_view text);

/// What the files say about a profile, credentials before config; empty where neither has it. Files
/// are AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE, or those in the home folder.
ConfigSection load_profile(const std::string& profile);

/// `given`, else AWS_PROFILE, else "default".
std::string profile_name(const std::string& given);

std::string environment_text(const char* name);

/// The text of a file that may be missing, unreadable or /dev/null: empty then. IoError for another
/// device or a pipe, which could keep the reader waiting.
std::string text_of_file(const std::string& path);

}  // namespace penstock::io
