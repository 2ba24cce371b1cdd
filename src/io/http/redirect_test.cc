#include "io/http/redirect.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include "base/threads/mutex.h"
#include "io/storage_options.h"
#include "io/testing/loopback_server.h"

// Redirects may lead elsewhere, but must not take secrets along or end the encryption.

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

Answer status(const std::string& line, const std::string& fields = "") {
  return {"HTTP/1.1 " + line + "\r\nContent-Length: 0" + fields, "", false};
}

Answer moved(const std::string& location, const std::string& line = "302 Found") {
  return status(line, "\r\nLocation: " + location);
}

/// Two servers with the same file. The first answers by `answer`; the second is another origin.
class Redirects : public testing::Test {
 protected:
  struct Seen {
    std::string path, token, authorization;
  };

  void SetUp() override {
    for (LoopbackServer* server : {&first_, &other_}) server->put("/d/x", "0123456789");
    record(other_, at_other_, [](const Request&, int) { return Answer{}; });
  }
  /// Later calls replace earlier ones.
  void record(LoopbackServer& server, std::vector<Seen>& seen,
              std::function<Answer(const Request&, int)> answer) {
    server.set_before([this, &seen, answer](const Request& request, int number) {
      const MutexLock lock(mutex_);
      seen.push_back(
          {request.path, header(request, "x-api-key"), header(request, "authorization")});
      return answer(request, number);
    });
  }
  void first_answers(std::function<Answer(const Request&, int)> answer) {
    record(first_, at_first_, std::move(answer));
  }
  StorePtr open() {
    auto store = store_for(first_.url() + "/d", {{{"header.X-Api-Key", "SECRET"},
                                                  {"header.Authorization", "Bearer SECRET"},
                                                  {"max_attempts", "20"}}});
    store->will_open(first_.url() + "/d");
    return store;
  }
  std::string read(const Store& store) {
    std::string out(4, '?');
    store.read(first_.url() + "/d/x", 2, std::as_writable_bytes(std::span(out)));
    return out;
  }
  std::string error_of_read() {
    try {
      read(*open());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  static void expect_headers(const std::vector<Seen>& seen, bool sent) {
    EXPECT_FALSE(seen.empty());
    for (const Seen& each : seen) {
      EXPECT_EQ(each.token, sent ? "SECRET" : "") << each.path;
      EXPECT_EQ(each.authorization, sent ? "Bearer SECRET" : "") << each.path;
    }
  }

  Mutex mutex_;  // orders the servers' threads; the test looks at what they saw after their answers
  std::vector<Seen> at_first_, at_other_;
  LoopbackServer first_, other_;  // their threads end before the data they use
};

TEST_F(Redirects, ToAnotherServerAreFollowedWithoutTheUsersHeaders) {
  for (const char* line : {"301 Moved Permanently", "302 Found", "303 See Other",
                           "307 Temporary Redirect", "308 Permanent Redirect"}) {
    at_first_.clear();
    at_other_.clear();
    first_answers([&, line](const Request& request, int) {
      return moved(other_.url() + request.path + "?signature=abc", line);
    });
    EXPECT_EQ(read(*open()), "2345") << line;
    expect_headers(at_first_, true);
    expect_headers(at_other_, false);
    EXPECT_EQ(at_first_.size(),
              at_other_.size());  // the index below the address, above it, the range
  }
}

TEST_F(Redirects, WithinTheServerTakeTheUsersHeadersAlong) {
  first_.put("/moved/x", "abcdefghij");
  first_answers([](const Request& request, int) {
    return request.path == "/d/x" ? moved("../moved/x?v=1") : Answer{};
  });
  EXPECT_EQ(read(*open()), "cdef");
  expect_headers(at_first_, true);
}

TEST_F(Redirects, ByAnotherServerDoNotBringTheHeadersBack) {
  first_answers([&](const Request& request, int) {
    return request.path == "/d/x" ? moved(other_.url() + "/back") : Answer{};
  });
  record(other_, at_other_, [&](const Request&, int) { return moved(first_.url() + "/found"); });
  first_.put("/found", "abcdefghij");
  EXPECT_EQ(read(*open()), "cdef");
  expect_headers(at_other_, false);
  ASSERT_EQ(at_first_.back().path, "/found");
  expect_headers({at_first_.back()}, false);
}

TEST_F(Redirects, EachAttemptBeginsAtTheFirstAddress) {
  const auto store = open();
  first_answers([&](const Request& request, int) { return moved(other_.url() + request.path); });
  int failures = 7;  // more than the redirects of one attempt
  record(other_, at_other_, [&](const Request&, int) {
    return failures-- > 0 ? status("503 Slow Down", "\r\nRetry-After: 0") : Answer{};
  });
  at_first_.clear();
  EXPECT_EQ(read(*store), "2345");
  EXPECT_EQ(at_first_.size(), 8U);
  EXPECT_EQ(at_other_.size(), 8U);
}

TEST_F(Redirects, ThatGoRoundAreAnError) {
  first_answers([&](const Request& request, int) {
    return request.path == "/d/x" ? moved("/d/x") : Answer{};
  });
  const std::string said = error_of_read();
  EXPECT_NE(said.find("redirected more than 5 times"), std::string::npos) << said;
}

TEST_F(Redirects, ThatAreNotFollowedSayWhere) {
  first_answers([&](const Request& request, int) {
    return request.path == "/d/x" ? moved("http://u:hidden@host/y?hidden", "305 Use Proxy")
                                  : Answer{};
  });
  const std::string said = error_of_read();
  EXPECT_NE(said.find("HTTP 305, to http://host/y: "), std::string::npos) << said;
}

TEST_F(Redirects, ErrorsShowWhereWithoutWhatMayBeSecret) {
  std::string location;
  first_answers([&](const Request& request, int) {
    return request.path == "/d/x" ? moved(location) : Answer{};
  });
  record(other_, at_other_, [](const Request&, int) { return status("403 Forbidden"); });
  const std::string host = other_.url().substr(7);
  for (const auto& [place, words] : std::vector<std::pair<std::string, std::string>>{
           {"http://user:hidden@" + host + "/y?sig=hidden",
            other_.url() + "/y with a user or password; not followed"},
           {"ftp://" + host + "/y?sig=hidden",
            "ftp://" + host + "/y, but only http:// and https:// are read"},
           {"http://[hidden", "an address that is not a URL"},
           {other_.url() + "/y?sig=hidden",
            "403 Forbidden; the headers of storage_options are sent to the server in the address "
            "alone; give the address that it redirects to if that needs them: " +
                first_.url() + "/d/x, bytes 2 to 5, redirected to " + other_.url() + "/y"}}) {
    location = place;
    const std::string said = error_of_read();
    EXPECT_NE(said.find(words), std::string::npos) << said;
    EXPECT_EQ(said.find("hidden"), std::string::npos) << said;
  }
  EXPECT_EQ(at_other_.size(), 1U);  // the last
}

TEST_F(Redirects, ToAServerWithoutTheIndexSayThatHeadersWereNotSent) {
  first_answers([&](const Request& request, int) { return moved(other_.url() + request.path); });
  for (const char* line : {"401 Unauthorized", "404 Not Found"}) {
    record(other_, at_other_, [line](const Request&, int) { return status(line); });
    const std::string said = error_of_read();
    EXPECT_NE(said.find("headers of storage_options are sent to the server in the address alone"),
              std::string::npos)
        << said;
    EXPECT_NE(said.find(first_.url() + "/d, redirected to " + other_.url()), std::string::npos)
        << said;
  }
}

HttpResponse to(const std::string& location, int status = 302) {
  HttpResponse response;
  response.status = status;
  if (!location.empty()) response.headers.emplace_back("location", location);
  return response;
}

TEST(RedirectedUrl, NeverLeavesTheEncryption) {
  for (const char* location : {"http://a/x", "http://a:443/x", "HTTP://b/x"}) {
    RedirectedUrl url("https://a/x");
    try {
      url.follow(to(location), "the place");
      FAIL() << location;
    } catch (const IoError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("from https:// to http://"), std::string::npos) << said;
      EXPECT_NE(said.find("the place"), std::string::npos) << said;
    }
  }
  RedirectedUrl url("http://a/x");
  EXPECT_TRUE(url.follow(to("https://a/x"), ""));
  EXPECT_FALSE(url.in_origin());
  EXPECT_THROW(url.follow(to("http://a/x"), ""), IoError);
  url.restart();
  EXPECT_EQ(url.url(), "http://a/x");
  EXPECT_TRUE(url.in_origin());
}

TEST(RedirectedUrl, OriginsAreSchemeHostAndPort) {
  EXPECT_EQ(origin_of("HTTPS://Data.Example.org/x y"), "https://data.example.org:443");
  EXPECT_EQ(origin_of("http://[::1]:81/x"), "http://[::1]:81");
  EXPECT_EQ(origin_of("ftp://a/x"), "");
  EXPECT_EQ(origin_of("/x"), "");
  EXPECT_EQ(origin_of("http://good@evil/x"), "http://evil:80");
  for (const auto& [location, same] :
       std::vector<std::pair<std::string, bool>>{{"https://a:443/y", true},
                                                 {"HTTPS://A/y", true},
                                                 {"//a/y", true},
                                                 {"/y", true},
                                                 {"y?z", true},
                                                 {"https://a:444/y", false},
                                                 {"//b/y", false},
                                                 {"https://a.b/y", false}}) {
    RedirectedUrl url("https://a/x");
    EXPECT_TRUE(url.follow(to(location), "")) << location;
    EXPECT_EQ(url.in_origin(), same) << location;
  }
  RedirectedUrl url("https://a/x");
  EXPECT_FALSE(url.follow(to("https://b/", 304), ""));
  EXPECT_FALSE(url.follow(to(""), ""));
}

}  // namespace
}  // namespace penstock::io
