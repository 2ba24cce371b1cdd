#include "io/http/certificates.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

#include "base/testing/test_seed.h"

namespace penstock::io {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

/// The folders of a machine, below one that starts empty.
class Machine {
 public:
  Machine() {
    std::string name = (fs::temp_directory_path() / "certificates.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = name;
  }
  ~Machine() { fs::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void write(const std::string& path, const std::string& text = "a certificate") const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
  }
  Certificates found(const Variables& variables = {}) const {
    return find_certificates(
        [&](const char* name) {
          const auto at = variables.find(name);
          return at != variables.end() ? at->second : "";
        },
        root_);
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

// Files as distributions install them; the first that exists is used.
const std::array<std::string, 6> kBundles = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/cert.pem",
};

TEST(Certificates, AreWhereASystemKeepsThem) {
  const Machine machine;
  EXPECT_TRUE(machine.found().empty());
  const TestSeed seed(1);
  std::mt19937 random(seed);
  for (unsigned subset = 1; subset < 1U << kBundles.size(); ++subset) {
    machine.clear();
    std::string first;
    for (size_t at = 0; at < kBundles.size(); ++at) {
      if ((subset >> at & 1U) == 0) continue;
      machine.write(kBundles[at]);
      if (first.empty()) first = machine.root() + kBundles[at];
    }
    if (random() % 2 != 0) machine.write("/etc/ssl/certs/002c0b4f.0");  // a bundle is one file
    const Certificates found = machine.found();
    EXPECT_EQ(found.file, first);
    EXPECT_EQ(found.folder, "");
    EXPECT_EQ(found.source, "");
  }
}

TEST(Certificates, AreInAFolderOfHashedNamesWhereThereIsNoBundle) {
  for (const std::string folder : {"/etc/ssl/certs", "/etc/pki/tls/certs"}) {
    const Machine machine;
    for (const char* other : {"/README", "/root.pem", "/002c0b4f.r0", "/002c0b4f", "/002c0b4.0",
                              "/002c0b4fa.0", "/002C0B4F.0", "/002c0b4f.0x", "/002c0b4f."}) {
      machine.write(folder + other);
    }
    EXPECT_TRUE(machine.found().empty()) << "OpenSSL looks at none of these";
    machine.write(folder + "/002c0b4f.0");
    EXPECT_EQ(machine.found().folder, machine.root() + folder);
    EXPECT_EQ(machine.found().file, "");
  }
  const Machine machine;
  machine.write("/etc/pki/tls/certs/9d04f354.1");
  fs::create_directories(machine.root() + "/etc/ssl/certs");  // there, and empty
  EXPECT_EQ(machine.found().folder, machine.root() + "/etc/pki/tls/certs");
}

TEST(Certificates, AreNotWhatCannotBeRead) {
  const Machine machine;
  machine.write(kBundles[0], "");
  fs::create_directories(machine.root() + kBundles[1]);  // a folder of that name
  fs::create_directories(machine.root() + "/etc/ssl");
  fs::create_symlink("nowhere", machine.root() + kBundles[3]);
  machine.write(kBundles[5]);
  EXPECT_EQ(machine.found().file, machine.root() + kBundles[5]);
  machine.write("/etc/ssl/real.pem");
  fs::remove(machine.root() + kBundles[3]);
  fs::create_symlink("real.pem", machine.root() + kBundles[3]);
  EXPECT_EQ(machine.found().file, machine.root() + kBundles[3]);
  fs::permissions(machine.root() + kBundles[3], fs::perms::none);
  const bool is_root = ::geteuid() == 0;  // root can read any file
  EXPECT_EQ(machine.found().file, machine.root() + kBundles[is_root ? 3 : 5]);
}

TEST(Certificates, AreThoseOfTheEnvironmentAlone) {
  const Machine machine;
  machine.write(kBundles[0]);
  machine.write("/etc/ssl/certs/002c0b4f.0");
  const std::array<std::string, 3> names = {"CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"};
  for (unsigned subset = 0; subset < 1U << (names.size() + 1); ++subset) {
    Variables variables = {{"SSL_CERT_DIR", subset >> names.size() != 0 ? "/of:/two" : ""}};
    std::string first;
    for (size_t at = 0; at < names.size(); ++at) {
      const bool is_set = (subset >> at & 1U) != 0;
      variables[names[at]] = is_set ? "/of/" + names[at] : "";
      if (is_set && first.empty()) first = names[at];
    }
    const Certificates found = machine.found(variables);
    const std::string folder = variables["SSL_CERT_DIR"];
    if (first.empty() && folder.empty()) {
      EXPECT_EQ(found.file, machine.root() + kBundles[0]) << "empty is not set";
      continue;
    }
    EXPECT_EQ(found.file, first.empty() ? "" : "/of/" + first);
    EXPECT_EQ(found.folder, folder);
    const std::string both = first.empty() || folder.empty() ? "" : " and ";
    EXPECT_EQ(found.source, first + both + (folder.empty() ? "" : "SSL_CERT_DIR"));
  }
}

// OpenSSL would wait for a writer.
TEST(Certificates, OfAPipeAreAnError) {
  const Machine machine;
  machine.write("/here");
  const std::string pipe = machine.root() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(machine.found({{"SSL_CERT_FILE", pipe}}), IoError);
  EXPECT_EQ(machine.found({{"SSL_CERT_FILE", machine.root() + "/here"}}).file,
            machine.root() + "/here");
}

TEST(Certificates, AreSaidWithTheWayToOthers) {
  EXPECT_EQ(describe({}),
            "no certificates are where Linux systems keep them; install ca-certificates, or set "
            "SSL_CERT_FILE or SSL_CERT_DIR");
  EXPECT_EQ(describe({"/a.pem", "", ""}),
            "trusted is what /a.pem certifies; SSL_CERT_FILE or SSL_CERT_DIR name others");
  EXPECT_EQ(describe({"/a.pem", "/b", "AWS_CA_BUNDLE and SSL_CERT_DIR"}),
            "trusted is what /a.pem and /b certifies, as AWS_CA_BUNDLE and SSL_CERT_DIR say");
  EXPECT_EQ(describe({"", "/b", "SSL_CERT_DIR"}),
            "trusted is what /b certifies, as SSL_CERT_DIR says");
}

}  // namespace
}  // namespace penstock::io
