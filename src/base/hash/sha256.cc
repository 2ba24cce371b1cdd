#include "base/hash/sha256.h"

#include <openssl/evp.h>
#include <penstock/error.h>

namespace penstock {

std::array<std::byte, 32> sha256(std::string_view bytes) {
  std::array<std::byte, 32> digest{};
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &length, EVP_sha256(), nullptr) != 1 ||
      length != digest.size()) {
    throw Internal("OpenSSL has no SHA-256");
  }
  return digest;
}

}  // namespace penstock
