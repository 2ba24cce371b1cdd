#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/threads/parallel.h"
#include "format/chunked/read_array.h"
#include "format/chunked/testing/whole_array.h"
#include "format/zarr/hierarchy.h"
#include "format/zarr/testing/zarr_golden.h"
#include "io/zip/zip_store.h"

// Arrays that zarr-python wrote, compared with what it reads.

namespace penstock::format::zarr {
namespace {

using chunked::Array;
using chunked::StringForm;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void expect_same_values(const Array& array, const GoldenArray& golden) {
  EXPECT_EQ(text_of(chunked::whole_values(array)), golden.expected);
  const auto& shape = array.info().shape;
  if (shape.size() != 1) return;
  const uint64_t cell = array.info().cell_bytes;
  for (const auto& [begin, end] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, shape[0]}, {shape[0] / 3, shape[0] / 3 * 2}, {shape[0], shape[0]}}) {
    for (const unsigned threads : {1U, 3U}) {
      const Buffer values = chunked::read_values(array, begin, end, threads);
      EXPECT_EQ(text_of(values.span()), golden.expected.substr(begin * cell, (end - begin) * cell));
    }
  }
}

void expect_same_strings(const Array& array, const GoldenArray& golden) {
  const std::vector<std::string> all = golden.strings();
  ASSERT_EQ(array.info().shape, std::vector<uint64_t>{all.size()});
  for (size_t begin = 0; begin <= all.size(); begin += all.size() / 4 + 1) {
    for (size_t end = begin; end <= all.size(); ++end) {
      const auto read = chunked::strings_of(chunked::read_strings(array, begin, end, 2));
      EXPECT_EQ(read, std::vector(all.begin() + static_cast<int64_t>(begin),
                                  all.begin() + static_cast<int64_t>(end)));
    }
  }
}

void expect_same(const chunked::Group& root, const GoldenArray& golden) {
  SCOPED_TRACE(golden.name());
  if (golden.kind == "unsupported") {
    try {
      root.array(golden.path);
      ADD_FAILURE() << "is read";
    } catch (const Unsupported& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find(golden.expected), std::string::npos) << said;
      EXPECT_NE(said.find(golden.path), std::string::npos) << said;
      EXPECT_NE(said.find("write it again with anndata"), std::string::npos) << said;
    }
    return;
  }
  const auto array = root.array(golden.path);
  ASSERT_NE(array, nullptr);
  std::string shape;
  for (const uint64_t length : array->info().shape) {
    shape += (shape.empty() ? "" : "x") + std::to_string(length);
  }
  EXPECT_EQ(shape.empty() ? "-" : shape, golden.shape);
  EXPECT_EQ(array->info().layout.substr(0, 6), "zarr v") << array->info().layout;
  EXPECT_EQ(array->stored_bytes_per_chunk(), array->stored_bytes_per_chunk());
  if (golden.kind == "strings") {
    expect_same_strings(*array, golden);
  } else {
    expect_same_values(*array, golden);
  }
}

TEST(ZarrGolden, EachArrayReadsAsZarrReadsIt) {
  const ZarrGolden golden = load_zarr_golden();
  EXPECT_GT(golden.arrays.size(), 100U);
  for (const GoldenArray& array : golden.arrays) {
    const auto root = open_zarr(golden.store, array.hierarchy);
    ASSERT_NE(root, nullptr);
    expect_same(*root, array);
  }
}

TEST(ZarrGolden, ZipArchivesReadTheSame) {
  const ZarrGolden golden = load_zarr_golden();
  for (const auto& [archive, hierarchy] :
       {std::pair{"stored.zip", "v3_consolidated"}, std::pair{"deflated.zip", "v2_consolidated"}}) {
    const auto root = open_zarr(io::open_zip(golden.store, archive), archive);
    ASSERT_NE(root, nullptr);
    for (const GoldenArray& array : golden.arrays) {
      if (array.hierarchy == hierarchy) expect_same(*root, array);
    }
  }
}

TEST(ZarrGolden, MembersAndAttributes) {
  const ZarrGolden golden = load_zarr_golden();
  for (const char* hierarchy : {"v2_consolidated", "v3_consolidated"}) {
    const auto root = open_zarr(golden.store, hierarchy);
    EXPECT_EQ(root->members(), (std::vector<std::string>{"X", "obs"}));
    EXPECT_EQ(root->group("X")->members(), (std::vector<std::string>{"data", "indices"}));
    EXPECT_EQ(root->group("obs")->attributes()["_index"], "_index");
    EXPECT_EQ(root->attributes()["root"], true);
    EXPECT_EQ(root->group("X")->path(), std::string(hierarchy) + "/X");
  }
  for (const char* hierarchy : {"v2", "v3"}) {
    const auto root = open_zarr(golden.store, hierarchy);
    const auto types = root->group("types");
    EXPECT_EQ(types->attributes()["infinite"], "Infinity");
    const auto members = types->members();
    EXPECT_NE(std::find(members.begin(), members.end(), "uint16"), members.end());
    EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
    const auto array = root->array("types/bool");
    EXPECT_EQ(array->attributes()["encoding-type"], "array");
    EXPECT_EQ(array->attributes()["not a number"], "NaN");
    for (const char* name : {"absent", "types/absent", "", "..", "types/../types", "/types"}) {
      EXPECT_EQ(root->group(name), nullptr) << name;
      EXPECT_EQ(root->array(name), nullptr) << name;
    }
    EXPECT_EQ(root->group("types/bool"), nullptr);
    EXPECT_EQ(root->array("types"), nullptr);
  }
  EXPECT_EQ(open_zarr(golden.store, "v3/types/bool"), nullptr);
  EXPECT_EQ(open_zarr(golden.store, "v2/types/bool"), nullptr);
  EXPECT_EQ(open_zarr(golden.store, "absent"), nullptr);
  EXPECT_NE(open_zarr(golden.store, "v3/types"), nullptr);
}

// Many threads ask one array, whose shard indexes are read meanwhile.
TEST(ZarrGolden, ThreadsShareAnArray) {
  const ZarrGolden golden = load_zarr_golden();
  for (const auto& [archive, path] :
       {std::pair{"stored.zip", "X/data"}, std::pair{"v3", "shards/blosc"},
        std::pair{"deflated.zip", "X/indices"}}) {
    const bool zip = std::string_view(archive).ends_with(".zip");
    const auto store = zip ? io::open_zip(golden.store, archive) : golden.store;
    const auto array = open_zarr(store, archive)->array(path);
    const uint64_t length = array->info().shape[0];
    std::vector<Buffer> values(40);
    parallel_for(values.size(), 8, [&](size_t i) {
      values[i] = chunked::read_values(*array, i % 5, length, 2);
      array->stored_bytes_per_chunk();
    });
    for (size_t i = 5; i < values.size(); ++i) {
      EXPECT_EQ(text_of(values[i].span()), text_of(values[i % 5].span()));
    }
  }
}

// Only the objects that the consolidated metadata name are there.
TEST(ZarrGolden, ConsolidatedMetadataAreAllThatIsRead) {
  ZarrGolden golden = load_zarr_golden();
  golden.store->remove("v3_consolidated/X/zarr.json");
  golden.store->remove("v2_consolidated/X/.zgroup");
  golden.store->put("v3_consolidated/more/zarr.json",
                    R"({"zarr_format": 3, "node_type": "group"})");
  for (const char* hierarchy : {"v2_consolidated", "v3_consolidated"}) {
    const auto root = open_zarr(golden.store, hierarchy);
    EXPECT_NE(root->group("X"), nullptr);
    EXPECT_EQ(root->group("more"), nullptr);
  }
}

}  // namespace
}  // namespace penstock::format::zarr
