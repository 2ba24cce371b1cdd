#include "format/hdf5/file.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <atomic>
#include <thread>

#include "format/hdf5/testing/hdf5_golden.h"
#include "io/memory_store.h"

namespace penstock::format::hdf5 {
namespace {

constexpr int kThreads = 8;
/// Behind the pages that opening reads.
constexpr uint64_t kAddress = 200'000;

/// A store whose reads behind the first pages wait until all threads are on their way.
class SlowStore final : public io::Store {
 public:
  explicit SlowStore(const std::string& bytes) { objects_.put("x.h5", bytes); }

  std::vector<io::DirectoryEntry> list(const std::string& path) const override {
    return objects_.list(path);
  }
  bool exists(const std::string& path) const override { return objects_.exists(path); }
  bool is_directory(const std::string& path) const override { return objects_.is_directory(path); }
  uint64_t size_bytes(const std::string& path) const override { return objects_.size_bytes(path); }
  void read(const std::string& path, uint64_t offset, std::span<std::byte> out) const override {
    if (offset + out.size() > kAddress) {
      ++reads;
      while (on_their_way != kThreads) std::this_thread::yield();
      if (failures-- > 0) throw IoError("not this time");
    }
    objects_.read(path, offset, out);
  }

  mutable std::atomic<int> reads = 0, on_their_way = 0, failures = 0;

 private:
  io::MemoryStore objects_;
};

std::shared_ptr<SlowStore> padded_store() {
  std::string bytes = load_hdf5_golden().begin()->second.bytes;
  bytes.resize(300'000, 'x');
  return std::make_shared<SlowStore>(bytes);
}

/// Reads the same bytes by all threads. Returns how many got an error.
int read_side_by_side(const SlowStore& store, const File& file) {
  std::atomic<int> errors = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  store.on_their_way = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++store.on_their_way;
      try {
        EXPECT_EQ(file.read(kAddress, 4, "bytes").as<char>()[0], 'x');
      } catch (const IoError&) {
        ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Hdf5File, ThreadsReadAPageOnce) {
  const auto store = padded_store();
  const auto file = File::open(store, "x.h5");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(read_side_by_side(*store, *file), 0);
  EXPECT_EQ(store->reads, 1);
}

TEST(Hdf5File, APageThatCannotBeReadIsAskedForAgain) {
  const auto store = padded_store();
  const auto file = File::open(store, "x.h5");
  ASSERT_NE(file, nullptr);
  store->failures = 2;
  EXPECT_EQ(read_side_by_side(*store, *file), 2);
  EXPECT_EQ(store->reads, 3);
  EXPECT_EQ(read_side_by_side(*store, *file), 0);
  EXPECT_EQ(store->reads, 3);
}

}  // namespace
}  // namespace penstock::format::hdf5
