#pragma once

#include <functional>
#include <string>

// Which certificates TLS trusts: what the environment names, else where systems keep theirs. What
// libcurl was built with is where its builder kept them, which is not where a wheel runs.

namespace penstock::io {

struct Certificates {
  std::string file;    ///< a bundle in PEM, or empty
  std::string folder;  ///< folders of hashed names (`openssl rehash`), ":" between them, or empty
  std::string source;  ///< the variables that said so; empty where they were found by looking

  /// Nothing is known of this system; what libcurl was built with may still be right.
  bool empty() const noexcept { return file.empty() && folder.empty(); }
};

/// The file is the first that is set of CURL_CA_BUNDLE, AWS_CA_BUNDLE and SSL_CERT_FILE, the folder
/// SSL_CERT_DIR; what is named is believed unseen, and nothing else is trusted then. Else the first
/// file, else the first folder, of those of Linux systems that is there with something in it.
/// `variable` is the text of an environment variable, `root` comes before the paths looked at.
Certificates find_certificates(const std::function<std::string(const char* name)>& variable,
                               const std::string& root = "");

/// Those of this process, looked for once.
const Certificates& certificates();

/// For the message of a connection that was not trusted: what was, and how to say otherwise.
std::string describe(const Certificates& found);

}  // namespace penstock::io
