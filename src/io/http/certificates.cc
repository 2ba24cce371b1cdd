#include "io/http/certificates.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "io/file_error.h"

namespace penstock::io {
namespace {

constexpr const char* kBundleVariables[] = {"CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"};
constexpr const char* kFolderVariable = "SSL_CERT_DIR";

// The usual places, the same as in Go's crypto/x509/root_linux.go.
constexpr const char* kFiles[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Gentoo, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL 7 and later
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/pki/tls/cacert.pem",                            // OpenELEC
    "/etc/ssl/cert.pem",                                  // Alpine
};
constexpr const char* kFolders[] = {"/etc/ssl/certs", "/etc/pki/tls/certs"};

// A failed installation leaves an empty bundle, which OpenSSL refuses.
bool is_bundle(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
         ::access(path.c_str(), R_OK) == 0;
}

// "002c0b4f.0": OpenSSL ignores other names in a folder.
bool is_hashed_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789", kHex = "0123456789abcdef";
  return name.size() >= 10 && name.find_first_not_of(kHex) == 8 && name[8] == '.' &&
         name.find_first_not_of(kDigits, 9) == std::string_view::npos;
}

bool is_hashed_folder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (folder == nullptr) return false;
  while (const dirent* const entry = ::readdir(folder.get())) {
    if (is_hashed_name(entry->d_name)) return true;
  }
  return false;
}

}  // namespace

Certificates find_certificates(const std::function<std::string(const char* name)>& variable,
                               const std::string& root) {
  Certificates found;
  for (const char* name : kBundleVariables) {
    found.file = variable(name);
    if (found.file.empty()) continue;
    struct stat info;
    if (::stat(found.file.c_str(), &info) == 0) expect_regular(found.file, info.st_mode);
    found.source = name;
    break;
  }
  found.folder = variable(kFolderVariable);
  if (!found.folder.empty()) {
    found.source += (found.source.empty() ? "" : " and ") + std::string(kFolderVariable);
  }
  if (!found.empty()) return found;
  for (const char* path : kFiles) {
    if (!is_bundle(root + path)) continue;
    found.file = root + path;
    return found;
  }
  for (const char* path : kFolders) {
    if (!is_hashed_folder(root + path)) continue;
    found.folder = root + path;
    return found;
  }
  return found;
}

const Certificates& certificates() {
  static const Certificates found = find_certificates([](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  });
  return found;
}

std::string describe(const Certificates& found) {
  if (found.empty()) {
    return "no certificates are where Linux systems keep them; install ca-certificates, or set "
           "SSL_CERT_FILE or SSL_CERT_DIR";
  }
  const std::string both = found.file.empty() || found.folder.empty() ? "" : " and ";
  const std::string trusted = "trusted is what " + found.file + both + found.folder;
  if (found.source.empty()) {
    return trusted + " certifies; SSL_CERT_FILE or SSL_CERT_DIR name others";
  }
  return trusted + " certifies, as " + found.source + (both.empty() ? " says" : " say");
}

}  // namespace penstock::io
