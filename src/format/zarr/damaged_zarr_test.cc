#include <gtest/gtest.h>
#include <penstock/error.h>

#include <set>

#include "format/chunked/read_array.h"
#include "format/chunked/testing/whole_array.h"
#include "format/zarr/hierarchy.h"
#include "format/zarr/testing/zarr_golden.h"

// Damaged hierarchies: each read is an error or, where damage cannot be seen, a result.

namespace penstock::format::zarr {
namespace {

/// Contents of an array as text; "error" for an error of the stored bytes.
std::string read(const io::StorePtr& store, const GoldenArray& golden) {
  try {
    const auto root = open_zarr(store, golden.hierarchy);
    if (!root) return "no group";
    const auto array = root->array(golden.path);
    if (!array) return "no array";
    const auto& info = array->info();
    if (info.cells() > 100'000 || info.chunk_cells() > 100'000) return "large";
    if (info.strings == chunked::StringForm::kVlenUtf8) {
      std::string text;
      for (const auto& each : chunked::strings_of(
               chunked::read_strings(*array, 0, info.shape.empty() ? 0 : info.shape[0], 1))) {
        text += each + "\n";
      }
      return text;
    }
    const auto whole = chunked::whole_values(*array);
    return {reinterpret_cast<const char*>(whole.data()), whole.size()};
  } catch (const CorruptData&) {
  } catch (const Unsupported&) {
  } catch (const NotFound&) {
  } catch (const InvalidArgument&) {  // strings of two dimensions
  } catch (const ResourceExhausted&) {
  }
  return "error";
}

const std::set<std::string> kArrays = {
    "v2/codecs/shuffle_zlib", "v2/keys/slashes_2",  "v2/strings/vlen_zstd", "v2/fill/zero",
    "v3/shards/start_crc",    "v3/shards/end_crc",  "v3/strings/vlen_gzip", "v3/shards/plane",
    "v3/strings/vlen_shards", "v3/codecs/blosc_lz4"};

std::vector<std::string> objects_of(const io::MemoryStore& store, const GoldenArray& golden) {
  std::vector<std::string> result;
  for (const std::string& path : store.paths()) {
    if (path.starts_with(golden.name() + "/")) result.push_back(path);
  }
  return result;
}

bool is_metadata(const std::string& path) {
  const std::string name = io::base_name(path);
  return name == "zarr.json" || name.starts_with(".z");
}

TEST(DamagedZarr, TruncatedObjectsAreErrors) {
  const ZarrGolden golden = load_zarr_golden();
  for (const GoldenArray& array : golden.arrays) {
    if (!kArrays.contains(array.name())) continue;
    const std::string whole = read(golden.store, array);
    EXPECT_NE(whole, "error");
    for (const std::string& path : objects_of(*golden.store, array)) {
      if (path.ends_with(".zattrs")) continue;
      const Buffer bytes = golden.store->read_all(path);
      for (uint64_t size = 0; size < bytes.size(); ++size) {
        golden.store->put(path, bytes.span().first(size));
        EXPECT_EQ(read(golden.store, array), "error") << path << " of " << size;
      }
      golden.store->put(path, bytes.span());
    }
    EXPECT_EQ(read(golden.store, array), whole);
  }
}

TEST(DamagedZarr, FlippedBitsOfMetadataNeverCrash) {
  const ZarrGolden golden = load_zarr_golden();
  for (const GoldenArray& array : golden.arrays) {
    if (!kArrays.contains(array.name())) continue;
    size_t errors = 0;
    for (const std::string& path : objects_of(*golden.store, array)) {
      if (!is_metadata(path)) continue;
      const Buffer bytes = golden.store->read_all(path);
      for (size_t i = 0; i < bytes.size(); ++i) {
        for (const int flip : {0x01, 0x10}) {
          std::vector<std::byte> damaged(bytes.span().begin(), bytes.span().end());
          damaged[i] ^= static_cast<std::byte>(flip);
          golden.store->put(path, damaged);
          errors += read(golden.store, array) == "error" ? 1 : 0;
        }
      }
      golden.store->put(path, bytes.span());
    }
    EXPECT_GT(errors, 50U) << array.name();
  }
}

TEST(DamagedZarr, FlippedBytesOfShardIndexesAreSeen) {
  const ZarrGolden golden = load_zarr_golden();
  for (const GoldenArray& array : golden.arrays) {
    const bool at_start = array.name() == "v3/shards/start_crc";
    if (!at_start && array.name() != "v3/shards/end_crc") continue;
    for (const std::string& path : objects_of(*golden.store, array)) {
      if (is_metadata(path)) continue;
      const Buffer bytes = golden.store->read_all(path);
      const size_t index = 5 * 16 + 4;  // shards of 20 in chunks of 4
      for (size_t i = 0; i < index; ++i) {
        std::vector<std::byte> damaged(bytes.span().begin(), bytes.span().end());
        damaged[at_start ? i : damaged.size() - index + i] ^= std::byte{0x20};
        golden.store->put(path, damaged);
        EXPECT_EQ(read(golden.store, array), "error") << path << " " << i;
      }
      golden.store->put(path, bytes.span());
    }
  }
}

}  // namespace
}  // namespace penstock::format::zarr
