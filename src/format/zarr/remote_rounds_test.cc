#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <numeric>

#include "format/chunked/read_array.h"
#include "format/zarr/hierarchy.h"
#include "format/zarr/testing/zarr_golden.h"
#include "io/storage_options.h"
#include "io/testing/loopback_server.h"

// How many requests opening and finding chunks takes on S3.

namespace penstock::format::zarr {
namespace {

io::StorePtr s3_store(const io::LoopbackServer& server) {
  return io::store_for("s3://bucket/root",
                       StorageOptions{{{"endpoint", server.url()}, {"anonymous", "true"}}});
}

/// Counts requests. The server has two entries a page; later pages of a listing are not counted.
class Requests {
 public:
  explicit Requests(io::LoopbackServer& server) {
    server.set_before([this](const io::LoopbackServer::Request& request, int) {
      const bool list = request.query.find("list-type") != std::string::npos;
      if (list && request.query.find("delimiter") == std::string::npos) ++trees_;
      if (request.query.find("continuation-token") == std::string::npos) ++count_;
      return io::LoopbackServer::Answer{};
    });
  }
  int count() const { return count_; }
  int trees() const { return trees_; }  ///< lists of all objects below a folder

 private:
  std::atomic<int> count_{0};
  std::atomic<int> trees_{0};
};

/// All objects of the golden hierarchies below "s3://bucket/root".
void serve_golden(io::LoopbackServer& server, const io::MemoryStore& store) {
  for (const std::string& path : store.paths()) {
    const Buffer bytes = store.read_all(path);
    server.put("/bucket/root/" + path,
               std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
}

TEST(ZarrRemote, OpeningAndFindingChunksTakesFewRequests) {
  const ZarrGolden golden = load_zarr_golden();
  for (const char* hierarchy : {"v2", "v3"}) {
    io::LoopbackServer server;
    const Requests requests(server);
    serve_golden(server, *golden.store);
    const auto store = s3_store(server);
    const auto root = open_zarr(store, std::string("s3://bucket/root/") + hierarchy);
    ASSERT_NE(root, nullptr);
    size_t documents = 0;
    for (const std::string& path : golden.store->paths()) {
      const std::string name = io::base_name(path);
      documents += path.starts_with(hierarchy + std::string("/")) &&
                           (name == "zarr.json" || name == ".zattrs" || name == ".zgroup" ||
                            name == ".zarray")
                       ? 1
                       : 0;
    }
    // Two listings, the document of the root, and the others, which are read at once.
    EXPECT_LE(requests.count(), static_cast<int>(documents) + 3);
    for (const GoldenArray& golden_array : golden.arrays) {
      if (golden_array.hierarchy != hierarchy || golden_array.kind == "unsupported") continue;
      const auto array = root->array(golden_array.path);
      ASSERT_NE(array, nullptr);
      std::vector<uint64_t> chunks(array->info().chunk_count());
      std::iota(chunks.begin(), chunks.end(), uint64_t{0});
      const int before = requests.count();
      array->places(chunks);
      const bool shards = golden_array.path.find("shard") != std::string::npos;
      const int first = requests.count() - before;
      if (!shards) {
        EXPECT_EQ(first, 0) << golden_array.name();
      }
      array->places(chunks);
      array->stored_bytes_per_chunk();
      EXPECT_EQ(requests.count() - before, first) << "indexes are kept";
    }
    root->members();
    root->group("types")->members();
  }
}

TEST(ZarrRemote, ConsolidatedMetadataAreOneRequest) {
  const ZarrGolden golden = load_zarr_golden();
  io::LoopbackServer server;
  const Requests requests(server);
  serve_golden(server, *golden.store);
  const auto store = s3_store(server);
  const auto root = open_zarr(store, "s3://bucket/root/v3_consolidated");
  EXPECT_EQ(requests.count(), 2) << "a list of the folder and the document";
  EXPECT_EQ(requests.trees(), 0);
  const int opened = requests.count();
  const auto array = root->array("X/data");
  root->group("obs")->members();
  EXPECT_EQ(requests.count(), opened);
  EXPECT_EQ(chunked::read_values(*array, 0, 100, 2).size(), 400U);
  EXPECT_EQ(requests.count(), opened + 5) << "a list of the chunks, and a request a chunk";
}

}  // namespace
}  // namespace penstock::format::zarr
