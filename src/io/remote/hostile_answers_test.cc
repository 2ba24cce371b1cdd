#include <gtest/gtest.h>
#include <penstock/error.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/memory/buffer.h"
#include "base/threads/cancellation.h"
#include "base/threads/mutex.h"
#include "io/storage_options.h"
#include "io/testing/loopback_server.h"

// Hostile servers and listings: names that lead elsewhere, impossible sizes, endless listings,
// files that change without notice.

namespace penstock::io {
namespace {

using Answer = LoopbackServer::Answer;
using Request = LoopbackServer::Request;

Answer text(const std::string& body, const std::string& fields = "",
            const std::string& status = "200 OK") {
  return {"HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + fields,
          body, false};
}

Answer page(const std::string& entries, const std::string& token = "") {
  const bool more = !token.empty();
  return text("<ListBucketResult>" + entries + "<IsTruncated>" + (more ? "true" : "false") +
              "</IsTruncated>" +
              (more ? "<NextContinuationToken>" + token + "</NextContinuationToken>" : "") +
              "</ListBucketResult>");
}

std::string contents(const std::string& key, const std::string& size = "1") {
  return "<Contents><Key>" + key + "</Key><Size>" + size + "</Size></Contents>";
}

std::string prefix(const std::string& name) {
  return "<CommonPrefixes><Prefix>" + name + "</Prefix></CommonPrefixes>";
}

StorePtr s3_store(const LoopbackServer& server) {
  return store_for("s3://b/exp", StorageOptions{{{"endpoint", server.url()},
                                                 {"anonymous", "true"},
                                                 {"max_attempts", "2"},
                                                 {"retry_timeout", "5"}}});
}

std::vector<std::string> names(const Store& store, const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : store.list(folder)) found.push_back(entry.name);
  return found;
}

template <typename Expected>
std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    return "another error: " + std::string(error.what());
  }
  return "no error";
}

const std::string kStrangeKeys = contents("exp/a/x") + contents("exp/../up") +
                                 contents("exp/a/../../up") + contents("exp/a/..") +
                                 contents("exp/./y") + contents("exp/a//z") + contents("exp//w") +
                                 contents("exp/a/") + contents("exp/") + contents("exp/m/");

TEST(HostileListing, NamesThatLeadElsewhereAreNoEntries) {
  LoopbackServer server;
  server.set_before([](const Request& request, int) {
    if (request.query.find("delimiter") == std::string::npos) return page(kStrangeKeys);
    return page(prefix("exp/a/") + prefix("exp/../") + prefix("exp/./") + prefix("exp//") +
                prefix("exp/a/../") + prefix("other/") + kStrangeKeys);
  });
  const auto whole = s3_store(server);
  EXPECT_TRUE(whole->will_open("s3://b/exp"));
  const auto by_folder = s3_store(server);
  for (const StorePtr& store : {whole, by_folder}) {
    EXPECT_EQ(names(*store, "s3://b/exp"), std::vector<std::string>{"a"});
    EXPECT_EQ(names(*store, "s3://b/exp/a"), std::vector<std::string>{"x"});
  }
}

TEST(HostileListing, PlainPaths) {
  for (const char* good : {"a", "a/b", ".a", "a..", "...", "a b/ä"})
    EXPECT_TRUE(is_plain_path(good));
  for (const char* bad : {"", "/", "a/", "/a", "a//b", ".", "..", "a/..", "../a", "a/./b"}) {
    EXPECT_FALSE(is_plain_path(bad)) << bad;
  }
  EXPECT_FALSE(is_plain_path(std::string_view("..\0/a", 5)));
}

TEST(HostileListing, SizesThatNothingHasAreCorrupt) {
  for (const char* size : {"18446744073709551615", "9223372036854775808", "99999999999999999999"}) {
    LoopbackServer server;
    server.set_before([=](const Request&, int) { return page(contents("exp/the-key", size)); });
    const auto store = s3_store(server);
    const auto said = message<CorruptData>([&] { store->will_open("s3://b/exp"); });
    EXPECT_NE(said.find("the-key"), std::string::npos) << said;
    EXPECT_NE(said.find(size), std::string::npos) << said;
    EXPECT_EQ(server.requests(), 1);
  }
}

TEST(HostileListing, SizesThatNothingHasInAnIndex) {
  LoopbackServer server;
  server.set_before([](const Request&, int) {
    return text(R"({"format": "penstock-index", "version": 1,
                    "files": {"the-file": 18446744073709551615}})");
  });
  const auto store = store_for(server.url() + "/d", {});
  const auto said = message<CorruptData>([&] { store->will_open(server.url() + "/d"); });
  EXPECT_NE(said.find("the-file"), std::string::npos) << said;
}

TEST(HostileListing, ABufferIsNeverSmallerThanItsSize) {
  Buffer buffer(10);
  for (const size_t size : {SIZE_MAX, SIZE_MAX - 62, size_t{PTRDIFF_MAX} + 1}) {
    EXPECT_THROW(buffer.resize_discard(size), std::bad_alloc);
    EXPECT_EQ(buffer.size(), 10U);
  }
}

TEST(HostileListing, OneThatGoesRoundIsAnError) {
  for (const int tokens : {1, 3}) {
    LoopbackServer server;
    server.set_before([=](const Request&, int number) {
      return page(contents("exp/" + std::to_string(number)), std::to_string(number % tokens) + "t");
    });
    const auto store = s3_store(server);
    const auto said = message<IoError>([&] { store->list("s3://b/exp"); });
    EXPECT_NE(said.find("a second time: listing of s3://b/exp"), std::string::npos) << said;
    EXPECT_EQ(server.requests(), tokens + 1);
  }
}

TEST(HostileListing, OneWithoutKeysEnds) {
  LoopbackServer server;
  server.set_before([](const Request&, int number) { return page("", std::to_string(number)); });
  const auto store = s3_store(server);
  const auto said = message<IoError>([&] { store->will_open("s3://b/exp"); });
  EXPECT_NE(said.find("after 100 pages without a key"), std::string::npos) << said;
  // Stores that skip deleted objects send a few empty pages.
  server.set_before([](const Request&, int number) {
    const bool last = number >= 150;
    return page(number % 50 == 0 ? contents("exp/" + std::to_string(number)) : "",
                last ? "" : std::to_string(number));
  });
  EXPECT_FALSE(names(*s3_store(server), "s3://b/exp").empty());
}

TEST(HostileListing, OneThatGoesOnWithoutATokenIsAnError) {
  LoopbackServer server;
  server.set_before([](const Request&, int) {
    return text("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>");
  });
  const auto store = s3_store(server);
  const auto said = message<IoError>([&] { store->will_open("s3://b/exp"); });
  EXPECT_NE(said.find("not complete, but does not say where the next part starts"),
            std::string::npos)
      << said;
}

/// An endless listing with one new key on every page.
void never_end(LoopbackServer& server) {
  server.set_before([](const Request&, int number) {
    return page(contents("exp/" + std::to_string(number)), std::to_string(number));
  });
}

TEST(HostileListing, OneOfEverNewKeysEnds) {
  const std::string padding(8 << 20, ' ');  // without it, it is the same with a million keys
  LoopbackServer server;
  server.set_before([&](const Request&, int number) {
    const std::string name = "exp/" + std::to_string(number);
    return number > 40 ? page("")
                       : page(padding + (number % 2 == 0 ? prefix(name + "/") : contents(name)),
                              std::to_string(number));
  });
  const auto store = s3_store(server);
  const auto said = message<IoError>([&] { store->list("s3://b/exp"); });
  EXPECT_NE(said.find("after 256 MiB, half a million names"), std::string::npos) << said;
  EXPECT_NE(said.find("listing of s3://b/exp"), std::string::npos) << said;
  EXPECT_LE(server.requests(), 33);
}

TEST(HostileListing, AnInterruptIsSeenBetweenQuickAnswers) {
  LoopbackServer server;
  never_end(server);
  const auto store = s3_store(server);
  std::atomic<bool> give_up{false};
  set_wait_hook([&] {
    if (server.requests() > 3) throw std::runtime_error("interrupted");
  });
  std::thread limit([&] {
    for (int i = 0; i < 400 && !give_up; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    server.set_before([](const Request&, int) { return page(""); });
  });
  const auto said = message<std::runtime_error>([&] { store->list("s3://b/exp"); });
  give_up = true;
  limit.join();
  set_wait_hook({});
  EXPECT_EQ(said, "interrupted");
}

TEST(HostileListing, CancellingIsSeenBetweenQuickAnswers) {
  LoopbackServer server;
  const auto store = s3_store(server);
  std::atomic<bool> cancel{false};
  server.set_before([&](const Request&, int number) {
    if (number == 20) cancel = true;
    return page(contents("exp/" + std::to_string(number)),
                number < 20'000 ? std::to_string(number) : "");
  });
  const CancelScope scope(&cancel);
  const auto said = message<IoError>([&] { store->list("s3://b/exp"); });
  EXPECT_NE(said.find("cancelled"), std::string::npos) << said;
  EXPECT_LT(server.requests(), 1000);
}

/// A file "x" of ten bytes; each range request is answered by `answer` first.
class HostileFile : public testing::Test {
 protected:
  void answer(std::function<Answer(int range)> first) {
    auto ranges = std::make_shared<std::atomic<int>>(0);
    server_.set_before([ranges, first = std::move(first)](const Request& request, int) {
      if (request.path == "/.penstock-index.json" || request.path == "/d/.penstock-index.json") {
        return Answer{};
      }
      return first((*ranges)++);
    });
  }
  StorePtr open() {
    server_.put("/d/x", "0123456789");
    auto store = store_for(server_.url() + "/d", StorageOptions{{{"retry_timeout", "5"}}});
    store->will_open(server_.url() + "/d");
    return store;
  }
  std::string read(const Store& store, size_t offset = 0) {
    std::string out(4, '?');
    store.read(server_.url() + "/d/x", offset, std::as_writable_bytes(std::span(out)));
    return out;
  }

  LoopbackServer server_;
};

TEST_F(HostileFile, AGarbledAnswerIsTriedAgain) {
  const auto store = open();
  for (const char* garbage : {"garbage without a status line", "\x01\xff\xfe"}) {
    answer([=](int range) { return range == 0 ? Answer{garbage, "", true} : Answer{}; });
    EXPECT_EQ(read(*store), "0123");
  }
}

TEST_F(HostileFile, ARedirectToAnotherSchemeIsFinal) {
  const auto store = open();
  for (const char* place : {"file:///etc/passwd", "ftp://127.0.0.1/x", "nonsense://127.0.0.1/x"}) {
    answer([=](int) { return text("", "\r\nLocation: " + std::string(place), "302 Found"); });
    const int before = server_.requests();
    EXPECT_NE(message<IoError>([&] { read(*store); }), "no error") << place;
    EXPECT_EQ(server_.requests(), before + 1) << place;
  }
}

/// The bytes of a file as a server without ETags sends them.
Answer part(const std::string& bytes, const std::string& fields) {
  return text(bytes.substr(0, 4), "\r\nContent-Range: bytes 0-3/10" + fields,
              "206 Partial Content");
}

TEST_F(HostileFile, WithoutETagsTheTimeTellsAChange) {
  const auto store = open();
  const std::string monday = "\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
  const std::string tuesday = "\r\nLast-Modified: Tue, 02 Jan 2024 00:00:00 GMT";
  answer([=](int range) { return part("0123456789", range < 2 ? monday : tuesday); });
  EXPECT_EQ(read(*store), "0123");
  EXPECT_EQ(read(*store), "0123");
  const auto said = message<IoError>([&] { read(*store); });
  EXPECT_NE(said.find("changed while it was read (it was modified Tue, 02 Jan"), std::string::npos)
      << said;
  // Two states at once.
  const auto other = open();
  answer([=](int range) { return part("0123456789", range == 0 ? monday : tuesday); });
  std::string outs[2] = {"????", "????"};
  std::vector<ReadRequest> both;
  for (auto& out : outs) {
    both.push_back({server_.url() + "/d/x", 0, std::as_writable_bytes(std::span(out))});
  }
  const auto at_once = message<IoError>([&] { other->read_many(both); });
  EXPECT_NE(at_once.find("the object changed"), std::string::npos) << at_once;
}

TEST_F(HostileFile, AnETagCountsMoreThanTheTime) {
  const auto store = open();  // copies on two machines differ in their times
  answer([](int range) {
    return part("0123456789", "\r\nETag: \"one\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:0" +
                                  std::to_string(range) + " GMT");
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(*store), "0123");
}

TEST(HostileNames, PercentSignsOfNamesAreEscapedAndThoseOfTheAddressStay) {
  Mutex mutex;
  std::vector<std::string> targets;
  LoopbackServer server;  // decodes what is asked for, as web servers do
  server.put("/my data/50%25/x", "0123456789");
  server.set_before([&](const Request& request, int) {
    const MutexLock lock(mutex);
    targets.push_back(request.path);
    if (request.path != "/my data/.penstock-index.json") return Answer{};
    return text(R"({"format": "penstock-index", "version": 1, "files": {"50%25/x": 10}})");
  });
  const std::string root = server.url() + "/my%20data";
  const auto store = store_for(root + "/", {});
  EXPECT_TRUE(store->will_open(root));
  EXPECT_EQ(names(*store, root), std::vector<std::string>{"50%25"});
  std::string out(4, '?');
  store->read(root + "/50%25/x", 2, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, "2345");
  EXPECT_EQ(targets.back(), "/my data/50%25/x");
}

TEST(HostileNames, AnEscapedAddressBelowItsIndex) {
  LoopbackServer server;
  server.put("/a b/50%25/x", "0123456789");  // and its index, at the top
  for (const std::string folder : {"/a%20b/50%2525", "/a b/50%2525"}) {
    const std::string root = server.url() + folder;
    const auto store = store_for(root, {});
    EXPECT_EQ(names(*store, root), std::vector<std::string>{"x"}) << folder;
    std::string out(4, '?');
    store->read(root + "/x", 2, std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(out, "2345") << folder;
  }
}

TEST(HostileIndex, OneOfMoreThan16MiBIsRead) {
  LoopbackServer server;
  constexpr int kFiles = 100'000;
  std::string index = R"({"format": "penstock-index", "version": 1, "files": {)";
  const std::string folder(170, 'f');
  for (int i = 0; i < kFiles; ++i) {
    index += (i == 0 ? "\"" : ", \"") + folder + "/" + std::to_string(i) + "\": 10";
  }
  index += "}}";
  ASSERT_GT(index.size(), size_t{16} << 20);
  server.set_before([&](const Request&, int) { return text(index); });
  const auto store = store_for(server.url() + "/d", {});
  EXPECT_TRUE(store->will_open(server.url() + "/d"));
  EXPECT_EQ(store->list(server.url() + "/d/" + folder).size(), size_t{kFiles});
}

TEST(HostileIndex, OneAboveItsLimitSaysWhatToDo) {
  LoopbackServer server;
  server.set_before([](const Request&, int) {
    return Answer{"HTTP/1.1 200 OK\r\nContent-Length: 268435457", "{", false};
  });
  const auto store = store_for(server.url() + "/d", {});
  const auto said = message<IoError>([&] { store->will_open(server.url() + "/d"); });
  EXPECT_NE(said.find("longer than 256 MiB"), std::string::npos) << said;
  EXPECT_NE(said.find("penstock index DIR"), std::string::npos) << said;
  EXPECT_EQ(server.requests(), 1);
}

TEST(HostileMessage, RetryAfterIsSecondsOrADate) {
  const std::string now = "Wed, 21 Oct 2015 07:28:00 GMT";
  EXPECT_EQ(parse_retry_after("7"), 7);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:30 GMT", now), 30);
  EXPECT_EQ(parse_retry_after("Wednesday, 21-Oct-15 07:28:30 GMT", now), 30);
  EXPECT_EQ(parse_retry_after("Wed Oct 21 07:28:30 2015", now), 30);
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:00:00 GMT", now), 0);
  EXPECT_EQ(parse_retry_after("Fri, 21 Oct 2095 07:28:00 GMT", now), 86'400);
  EXPECT_EQ(parse_retry_after("Fri, 21 Oct 2095 07:28:00 GMT"), 86'400);  // this machine's clock
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:30 GMT"), 0);
  for (const char* none : {"", "-1", "1.5", "soon", "Wed", "2015-10-21"}) {
    EXPECT_FALSE(parse_retry_after(none, now)) << none;
  }
}

TEST_F(HostileFile, ADateToWaitForIsWaitedFor) {
  const auto store = open();
  answer([](int range) {
    if (range != 0) return Answer{};
    return text("",
                "\r\nDate: Wed, 21 Oct 2015 07:28:00 GMT"
                "\r\nRetry-After: Wed, 21 Oct 2015 07:28:01 GMT",
                "503 Slow Down");
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(read(*store), "0123");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(950));
}

}  // namespace
}  // namespace penstock::io
