#include "codec/filters/checksum.h"

#include <openssl/evp.h>
#include <penstock/error.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/concat.h"
#include "base/hash/hex.h"

namespace penstock::codec {
namespace {

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

using Digest = std::array<unsigned char, EVP_MAX_MD_SIZE>;

void compute(const EVP_MD* algorithm, std::span<const std::byte> bytes, Digest& digest) {
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
  if (!context || EVP_DigestInit_ex(context.get(), algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    // A FIPS build of OpenSSL refuses MD5.
    throw Unsupported("OpenSSL refuses to compute " + std::string(EVP_MD_get0_name(algorithm)));
  }
}

/// Checks `parts` parts of `bytes` against the entries, which must cover `bytes` exactly.
void verify(const EVP_MD* algorithm, std::string_view name, std::string_view what, uint64_t parts,
            ByteReader& entries, std::span<const std::byte> bytes) {
  const auto digest_bytes = static_cast<size_t>(EVP_MD_get_size(algorithm));
  ByteReader covered(bytes);
  Digest digest;
  for (uint64_t part = 0; part < parts; ++part) {
    const auto length = entries.read<uint64_t>("checksummed length");
    const auto stored = entries.take(digest_bytes, "digest");
    compute(algorithm, covered.take(length, "checksummed part"), digest);
    const auto* expected = reinterpret_cast<const unsigned char*>(stored.data());
    if (!std::equal(expected, expected + digest_bytes, digest.begin())) {
      throw CorruptData(concat("checksum differs: ", name, " of ", what, " part ", part, " (",
                               length, " bytes), stored ",
                               hex(std::as_bytes(std::span(expected, digest_bytes))), ", computed ",
                               hex(std::as_bytes(std::span(digest.data(), digest_bytes)))));
    }
  }
  if (!covered.empty()) {
    throw CorruptData(
        concat(name, " covers all but the last ", covered.remaining(), " bytes of the ", what));
  }
}

}  // namespace

void decode_checksum(FilterStep& step) {
  const EVP_MD* algorithm = step.config.type == FilterType::kChecksumMd5 ? EVP_md5() : EVP_sha256();
  const auto name = name_of(step.config.type);
  const uint64_t metadata_parts = step.metadata.read<uint32_t>("number of metadata parts");
  const uint64_t data_parts = step.metadata.read<uint32_t>("number of data parts");
  const uint64_t entry_bytes = sizeof(uint64_t) + static_cast<size_t>(EVP_MD_get_size(algorithm));
  const uint64_t parts = metadata_parts + data_parts;
  step.metadata.expect_items(parts, entry_bytes, "checksums");
  ByteReader entries(step.metadata.take(parts * entry_bytes, "checksums"));
  step.pass_metadata();
  verify(algorithm, name, "metadata", metadata_parts, entries, step.metadata_result());
  verify(algorithm, name, "data", data_parts, entries, step.data);
  step.pass_data();
}

}  // namespace penstock::codec
