#include <gtest/gtest.h>
#include <penstock/error.h>
#include <sys/wait.h>

#include <chrono>
#include <random>

#include "base/testing/test_seed.h"
#include "base/threads/cancellation.h"
#include "base/threads/mutex.h"
#include "io/storage_options.h"
#include "io/testing/loopback_server.h"

// Faults of servers, one at a time: which are retried, which are errors, and that the limits of
// attempts and of time end both.

namespace penstock::io {
namespace {

using Answer = LoopbackServer::Answer;
using Request = LoopbackServer::Request;

std::string header(const Request& request, const std::string& name) {
  for (const auto& field : request.headers) {
    if (field.first == name) return field.second;
  }
  return {};
}

class HttpFaults : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 100'000; ++i) bytes_ += static_cast<char>('a' + i % 977 % 23);
    server_.put("/d/x", bytes_);
  }

  StorePtr open(std::map<std::string, std::string> options = {}) {
    options.try_emplace("retry_timeout", "5");
    auto store = store_for(server_.url() + "/d", {options});
    store->will_open(server_.url() + "/d");
    return store;
  }
  std::string read(const Store& store, uint64_t offset, size_t length) {
    std::string out(length, '?');
    store.read(server_.url() + "/d/x", offset, std::as_writable_bytes(std::span(out)));
    return out;
  }
  /// Answers the first `count` requests of a range this way.
  void fault(int count, const std::function<Answer(const Request&)>& answer) {
    auto left = std::make_shared<std::atomic<int>>(count);
    server_.set_before([left, answer](const Request& request, int) {
      if (header(request, "range").empty() || (*left)-- <= 0) return Answer{};
      return answer(request);
    });
  }
  std::string message(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::atomic<bool> release_{false};  // outlives the server's threads
  LoopbackServer server_;
  std::string bytes_;
};

Answer status(const std::string& line, const std::string& fields = "") {
  return {"HTTP/1.1 " + line + "\r\nContent-Length: 0" + fields, "", false};
}

Answer closed() { return {"", "", true}; }

Answer cut_short(const Request&) {
  return {"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 5-14/100000",
          "abc", true};
}

Answer other_range(const Request&) {
  return {"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 6-15/100000",
          "0123456789", false};
}

Answer no_range(const Request&) {
  return {"HTTP/1.1 200 OK\r\nContent-Length: 10", "0123456789", false};
}

Answer too_long(const Request&) {
  return {"HTTP/1.1 206 Partial Content\r\nContent-Length: 12\r\nContent-Range: bytes 5-14/100000",
          "0123456789AB", false};
}

const std::vector<std::pair<std::string, std::function<Answer(const Request&)>>> kFaults = {
    {"reset", [](const Request&) { return closed(); }},
    {"500", [](const Request&) { return status("500 Internal Server Error"); }},
    {"503", [](const Request&) { return status("503 Slow Down"); }},
    {"408", [](const Request&) { return status("408 Request Timeout"); }},
    {"429", [](const Request&) { return status("429 Too Many Requests", "\r\nRetry-After: 0"); }},
    {"short", cut_short},
    {"other range", other_range},
    {"200", no_range},
    {"long", too_long},
};

TEST_F(HttpFaults, WhatPassesIsTriedAgain) {
  const auto store = open();
  for (const auto& [name, answer] : kFaults) {
    fault(2, answer);
    EXPECT_EQ(read(*store, 5, 10), bytes_.substr(5, 10)) << name;
  }
}

TEST_F(HttpFaults, WhatStaysIsAnIoErrorAfterMaxAttempts) {
  const auto store = open({{"max_attempts", "3"}});
  for (const auto& [name, answer] : kFaults) {
    fault(1 << 30, answer);
    EXPECT_THROW(read(*store, 5, 10), IoError) << name;
    const std::string said = message([&] { read(*store, 5, 10); });
    EXPECT_NE(said.find("after 3 attempts"), std::string::npos) << said;
    EXPECT_NE(said.find("/d/x, bytes 5 to 14"), std::string::npos) << said;
    if (name == "long") {
      EXPECT_NE(said.find("longer than the 10 bytes that were asked for"), std::string::npos)
          << said;
    }
  }
}

TEST_F(HttpFaults, WhatStaysIsAnIoErrorWithinRetryTimeout) {
  // 14 attempts take 31 s or more in nearly all cases, on a slow machine longer: the time limit
  // ends them.
  const auto store = open({{"max_attempts", "14"}, {"retry_timeout", "2"}});
  for (const auto& [name, answer] : kFaults) {
    fault(1 << 30, answer);
    const std::string said = message([&] { read(*store, 5, 10); });
    EXPECT_NE(said.find(" attempts in "), std::string::npos) << said;
    EXPECT_EQ(said.find("after 14 attempts"), std::string::npos) << said;
    EXPECT_NE(said.find("/d/x, bytes 5 to 14"), std::string::npos) << said;
  }
}

TEST_F(HttpFaults, AServerThatStallsIsAnIoErrorWithinRetryAndStallTimeout) {
  const auto store =
      open({{"max_attempts", "1000"}, {"retry_timeout", "2"}, {"stall_timeout", "1"}});
  const auto attempts = std::make_shared<std::atomic<int>>(0);
  server_.set_before([attempts](const Request& request, int) {
    if (header(request, "range").empty()) return Answer{};
    ++*attempts;
    return Answer{
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nContent-Range: bytes 5-14/100000",
        "abc", false};
  });
  const std::string said = message([&] { read(*store, 5, 10); });
  EXPECT_NE(said.find("stalled"), std::string::npos) << said;
  // Each lasts a second or more, and none begins after two.
  EXPECT_LE(*attempts, 4);
}

TEST_F(HttpFaults, RefusalsAreNotTriedAgain) {
  const auto store = open();
  fault(1 << 30, [](const Request&) { return status("403 Forbidden"); });
  const int before = server_.requests();
  EXPECT_NE(message([&] { read(*store, 0, 4); }).find("403 Forbidden; check"), std::string::npos);
  fault(1 << 30, [](const Request&) { return status("404 Not Found"); });
  EXPECT_THROW(read(*store, 0, 4), NotFound);
  EXPECT_EQ(server_.requests() - before, 2);
}

TEST_F(HttpFaults, ARefusedConnectionIsAnIoError) {
  std::string url;
  {
    const LoopbackServer gone;
    url = gone.url();
  }
  const auto store = store_for(url + "/d", {{{"max_attempts", "2"}}});
  EXPECT_THROW(store->will_open(url + "/d"), IoError);
}

TEST_F(HttpFaults, AChangedObjectIsNeverMixed) {
  const auto store = open();
  EXPECT_EQ(read(*store, 0, 10), bytes_.substr(0, 10));  // pins the ETag
  std::string other = bytes_;
  other[50'000] = '!';
  server_.put("/d/x", other);
  EXPECT_NE(message([&] { read(*store, 50'000, 10); }).find("the object changed"),
            std::string::npos);
  server_.put("/d/x", bytes_ + "more");
  EXPECT_THROW(read(*store, 0, 10), IoError);
  // Also noticed if the server has no ETags and answers that there is no such range.
  fault(1, [](const Request&) { return status("416 Range Not Satisfiable"); });
  EXPECT_NE(message([&] { read(*store, 0, 10); }).find("the object changed"), std::string::npos);
  server_.put("/d/x", bytes_);
  EXPECT_EQ(read(*store, 0, 10), bytes_.substr(0, 10));
}

TEST_F(HttpFaults, AskedForIsTheObjectThatWasSeenFirst) {
  const auto store = open();
  std::vector<std::string> matches;
  server_.set_before([&](const Request& request, int) {
    if (!header(request, "range").empty()) matches.push_back(header(request, "if-match"));
    return Answer{};
  });
  read(*store, 0, 10);
  read(*store, 500, 10);
  server_.set_before(nullptr);
  ASSERT_EQ(matches.size(), 2U);
  EXPECT_EQ(matches[0], "");
  EXPECT_EQ(matches[1].front(), '"');
}

TEST_F(HttpFaults, AStalledTransferIsGivenUp) {
  const auto store = open({{"stall_timeout", "1"}, {"max_attempts", "1"}});
  server_.set_before([&](const Request& request, int) {
    if (header(request, "range").empty()) return Answer{};
    while (!release_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return closed();
  });
  EXPECT_NE(message([&] { read(*store, 0, 10); }).find("stalled"), std::string::npos);
  release_ = true;
}

TEST_F(HttpFaults, ACancelledReadEnds) {
  const auto store = open();
  server_.set_before([&](const Request& request, int) {
    if (header(request, "range").empty()) return Answer{};
    while (!release_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return closed();
  });
  std::atomic<bool> cancel{false};
  std::thread reader([&] {
    const CancelScope scope(&cancel);
    EXPECT_THROW(read(*store, 0, 10), IoError);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  cancel = true;
  reader.join();  // long before the 20 seconds of a stall
  release_ = true;
}

TEST_F(HttpFaults, ManyReadsOverFewConnections) {
  const auto store = open({{"max_requests", "4"}});
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  fault(40, [](const Request&) { return closed(); });
  std::vector<std::string> outs;
  std::vector<ReadRequest> reads;
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 300; ++i) {
    outs.emplace_back(1 + random() % 2000, '?');
    offsets.push_back(random() % (bytes_.size() - outs.back().size()));
  }
  for (size_t i = 0; i < outs.size(); ++i) {
    reads.push_back(
        {server_.url() + "/d/x", offsets[i], std::as_writable_bytes(std::span(outs[i]))});
  }
  store->read_many(reads);
  for (size_t i = 0; i < outs.size(); ++i) {
    ASSERT_EQ(outs[i], bytes_.substr(offsets[i], outs[i].size())) << i;
  }
}

TEST_F(HttpFaults, ConnectionsAreUsedAgain) {
  const auto store = open({{"max_requests", "4"}});
  const int before = server_.connections();
  const int requests = server_.requests();
  for (uint64_t offset = 0; offset < 60; ++offset) {
    EXPECT_EQ(read(*store, offset * 11, 10), bytes_.substr(offset * 11, 10));
  }
  EXPECT_GE(server_.requests() - requests, 60);
  EXPECT_LE(server_.connections() - before, 4);
}

TEST_F(HttpFaults, AForkedChildReads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no threads in a forked child";
#endif
  const auto store = open();
  EXPECT_EQ(read(*store, 1, 10), bytes_.substr(1, 10));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool same = read(*store, 7, 100) == bytes_.substr(7, 100);
    ::_exit(same ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(*store, 2, 10), bytes_.substr(2, 10));
}

TEST(HttpStore, ACopyWithoutIndexNamesTheCommand) {
  LoopbackServer server;
  server.set_before([](const Request&, int) { return status("404 Not Found"); });
  const auto store = store_for(server.url() + "/d", {});
  try {
    store->will_open(server.url() + "/d");
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("penstock index"), std::string::npos) << error.what();
  }
}

TEST(HttpStore, HeadersGoToTheirHostAlone) {
  Mutex mutex;
  std::vector<std::string> seen;
  LoopbackServer server;  // its threads end before the data they use
  server.put("/d/x", "0123456789");
  server.set_before([&](const Request& request, int) {
    const MutexLock lock(mutex);
    seen.push_back(header(request, "authorization"));
    return Answer{};
  });
  const StorageOptions options{{{"header.Authorization", "Bearer secret"}}};
  const auto store = store_for(server.url() + "/d", options);
  EXPECT_EQ(store->size_bytes(server.url() + "/d/x"), 10u);
  const auto expect_all = [&](const std::string& expected) {
    const MutexLock lock(mutex);
    EXPECT_FALSE(seen.empty());
    for (const auto& value : seen) EXPECT_EQ(value, expected);
    seen.clear();
  };
  expect_all("Bearer secret");
  std::string other = server.url();
  other.replace(other.find("127.0.0.1"), 9, "localhost");
  EXPECT_EQ(store->size_bytes(other + "/d/x"), 10u);
  expect_all("");
}

}  // namespace
}  // namespace penstock::io
