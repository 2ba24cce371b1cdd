#pragma once

#include <functional>
#include <string>

// Finds the certificates that TLS trusts: those that the environment names, else those in the usual
// places of Linux systems. The paths built into libcurl are those of the build machine, which need
// not exist where a wheel runs.

namespace penstock::io {

struct Certificates {
  std::string file;    ///< a bundle in PEM, or empty
  std::string folder;  ///< folders of hashed names (`openssl rehash`), ":" between them, or empty
  std::string source;  ///< the variables that name them; empty if found in the usual places

  /// Nothing was found; the paths built into libcurl may still be right.
  bool empty() const noexcept { return file.empty() && folder.empty(); }
};

/// The file is the first that is set of CURL_CA_BUNDLE, AWS_CA_BUNDLE and SSL_CERT_FILE; the folder
/// is SSL_CERT_DIR. If any is set, nothing else is trusted, and contents are not checked. Otherwise
/// the first non-empty file, else the first non-empty folder, of those that Linux systems use.
/// `variable` returns the text of an environment variable; `root` is a prefix of the Linux paths.
Certificates find_certificates(const std::function<std::string(const char* name)>& variable,
                               const std::string& root = "");

/// Certificates of this process, searched once.
const Certificates& certificates();

/// Text for the message of an untrusted connection: what is trusted, and how to change it.
std::string describe(const Certificates& found);

}  // namespace penstock::io
