#include "io/s3/s3_source.h"

#include <gtest/gtest.h>
#include <penstock/error.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/threads/mutex.h"
#include "io/s3/xml_answer.h"
#include "io/storage_options.h"
#include "io/testing/loopback_server.h"

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

Answer xml(const std::string& line, const std::string& body, const std::string& fields = "") {
  return {"HTTP/1.1 " + line + "\r\nContent-Length: " + std::to_string(body.size()) + fields, body,
          false};
}

std::map<std::string, std::string> signed_options(const LoopbackServer& server) {
  return {{"endpoint", server.url()},
          {"access_key_id", "AKIAEXAMPLE"},
          {"secret_access_key", "very-secret-text"},
          {"max_attempts", "2"}};
}

std::string error_text(const Store& store, const std::string& path) {
  try {
    store.list(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(S3Source, Uris) {
  EXPECT_EQ(parse_s3_uri("s3://b/k/l").bucket, "b");
  EXPECT_EQ(parse_s3_uri("s3://b/k/l").key, "k/l");
  EXPECT_EQ(parse_s3_uri("s3://b").key, "");
  EXPECT_THROW(parse_s3_uri("s3:///k"), InvalidArgument);
  EXPECT_THROW(parse_s3_uri("/k"), InvalidArgument);
}

// The bucket answers with its region, and the request is signed again for it.
TEST(S3Source, FollowsTheBucketsRegion) {
  const std::vector<std::pair<std::string, std::string>> answers = {
      {"301 Moved Permanently", "<Error><Code>PermanentRedirect</Code></Error>"},
      {"400 Bad Request",
       "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>"},
      {"307 Temporary Redirect",
       "<Error><Code>TemporaryRedirect</Code><Region>eu-west-3</Region></Error>"}};
  for (const auto& [line, body] : answers) {
    Mutex mutex;
    std::vector<std::string> signatures;
    LoopbackServer server;  // its threads end before what they use goes
    server.put("/bucket/d/x", "0123456789");
    const bool by_header = line.starts_with("301");
    server.set_before([&, line = line, body = body](const Request& request, int) {
      const MutexLock lock(mutex);
      signatures.push_back(header(request, "authorization"));
      if (signatures.back().find("/eu-west-3/s3/") != std::string::npos) return Answer{};
      return xml(line, body, by_header ? "\r\nx-amz-bucket-region: eu-west-3" : "");
    });
    const auto store = store_for("s3://bucket/d", {signed_options(server)});
    EXPECT_EQ(store->size_bytes("s3://bucket/d/x"), 10u) << line;
    const MutexLock lock(mutex);
    EXPECT_EQ(signatures.size(), 2u) << line;
    EXPECT_NE(signatures[0].find("/us-east-1/s3/"), std::string::npos) << signatures[0];
  }
}

TEST(S3Source, ARedirectThatGoesRoundIsAnError) {
  std::atomic<int> turn{0};
  LoopbackServer server;
  server.set_before([&](const Request&, int) {
    return xml("301 Moved Permanently", "<Error><Code>PermanentRedirect</Code></Error>",
               ++turn % 2 != 0 ? "\r\nx-amz-bucket-region: a-1" : "\r\nx-amz-bucket-region: b-1");
  });
  const auto store = store_for("s3://bucket/d", {signed_options(server)});
  EXPECT_THROW(store->list("s3://bucket/d"), IoError);
}

TEST(S3Source, RefusalsSayWhatToCheckAndNoSecret) {
  const std::vector<std::array<std::string, 3>> answers = {
      {"403 Forbidden", "SignatureDoesNotMatch", "check the secret access key"},
      {"403 Forbidden", "InvalidAccessKeyId", "check the access key id"},
      {"403 Forbidden", "AccessDenied", "s3:ListBucket"},
      {"403 Forbidden", "RequestTimeTooSkewed", "clock"},
      {"400 Bad Request", "ExpiredToken", "no longer valid"},
      {"404 Not Found", "NoSuchBucket", "no bucket bucket"}};
  for (const auto& [line, code, advice] : answers) {
    LoopbackServer server;
    server.set_before([&, line = line, code = code](const Request&, int) {
      return xml(line, "<Error><Code>" + code + "</Code><Message>m</Message></Error>");
    });
    const auto store = store_for("s3://bucket/d", {signed_options(server)});
    const std::string said = error_text(*store, "s3://bucket/d");
    EXPECT_NE(said.find(advice), std::string::npos) << said;
    EXPECT_EQ(said.find("very-secret-text"), std::string::npos) << said;
    EXPECT_EQ(server.requests(), 1) << code;
  }
  LoopbackServer server;
  server.set_before([](const Request&, int) {
    return xml("403 Forbidden", "<Error><Code>AccessDenied</Code></Error>");
  });
  const auto store =
      store_for("s3://bucket/d", {{{"endpoint", server.url()}, {"anonymous", "true"}}});
  EXPECT_NE(error_text(*store, "s3://bucket/d").find("anonymous"), std::string::npos);
}

TEST(S3Source, SlowDownIsTriedAgain) {
  for (const auto& [line, code] :
       {std::pair("503 Slow Down", "SlowDown"), std::pair("400 Bad Request", "RequestTimeout")}) {
    LoopbackServer server;
    server.put("/bucket/d/x", "0123456789");
    server.set_before([line = line, code = code](const Request&, int number) {
      const std::string body = "<Error><Code>" + std::string(code) + "</Code></Error>";
      return number == 0 ? xml(line, body) : Answer{};
    });
    const auto store = store_for("s3://bucket/d", {signed_options(server)});
    EXPECT_EQ(store->list("s3://bucket/d").size(), 1u) << code;
  }
}

/// Headers of each request.
class Recorded {
 public:
  explicit Recorded(LoopbackServer& server,
                    std::function<Answer(const Request&, int)> answer = {}) {
    server.set_before([this, answer](const Request& request, int number) {
      requests.push_back(request);
      return answer ? answer(request, number) : Answer{};
    });
  }
  std::vector<Request> requests;
};

TEST(S3Source, WhatOptionsSayIsSentAndSigned) {
  LoopbackServer server;
  server.put("/bucket/d/x", "0123456789");
  const Recorded seen(server);
  auto options = signed_options(server);
  options["session_token"] = "the/token==";
  options["requester_pays"] = "true";
  options["region"] = "eu-central-2";
  ::setenv("AWS_REGION", "ap-south-1", 1);  // what is given comes first
  const auto store = store_for("s3://bucket/d", {options});
  ::unsetenv("AWS_REGION");
  std::string out(4, '?');
  store->read("s3://bucket/d/x", 2, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, "2345");
  server.set_before(nullptr);
  ASSERT_EQ(seen.requests.size(), 2u);  // listing and range
  for (const Request& request : seen.requests) {
    EXPECT_EQ(header(request, "x-amz-security-token"), "the/token==");
    EXPECT_EQ(header(request, "x-amz-request-payer"), "requester");
    const std::string authorization = header(request, "authorization");
    EXPECT_NE(authorization.find("/eu-central-2/s3/aws4_request"), std::string::npos);
    for (const char* name : {"host", "x-amz-date", "x-amz-security-token", "x-amz-request-payer"}) {
      EXPECT_NE(authorization.find(name), std::string::npos) << name << " is signed";
    }
  }
}

TEST(S3Source, KeysWithLineBreaksAreRefused) {
  const LoopbackServer server;
  for (const char* name : {"access_key_id", "secret_access_key", "session_token"}) {
    auto options = signed_options(server);
    options[name] += "hidden\n";
    const auto store = store_for("s3://bucket/d", {options});
    try {
      store->list("s3://bucket/d");
      FAIL() << name;
    } catch (const InvalidArgument& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("line break"), std::string::npos) << said;
      EXPECT_EQ(said.find("hidden"), std::string::npos) << said;
    }
  }
  EXPECT_EQ(server.requests(), 0);
}

// *.localhost is this machine, also for curl.
TEST(S3Source, ABucketInTheHost) {
  LoopbackServer server;
  server.put("/d/x", "0123456789");
  const std::string host = "localhost" + server.url().substr(server.url().rfind(':'));
  const Recorded seen(server, [&](const Request& request, int number) {
    if (number == 0) {  // to a host that has the bucket's name already
      return xml("307 Temporary Redirect", "<Error><Code>TemporaryRedirect</Code></Error>",
                 "\r\nLocation: http://bucket." + host + "/");
    }
    if (request.query.find("list-type=2") == std::string::npos) return Answer{};
    return xml("200 OK",
               "<ListBucketResult><Contents><Key>d/x</Key><Size>10</Size></Contents>"
               "<IsTruncated>false</IsTruncated></ListBucketResult>");
  });
  auto options = signed_options(server);
  options["endpoint"] = "http://" + host;
  options["addressing_style"] = "virtual";
  const auto store = store_for("s3://bucket/d", {options});
  std::string out(4, '?');
  store->read("s3://bucket/d/x", 2, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, "2345");
  server.set_before(nullptr);
  ASSERT_EQ(seen.requests.size(), 3u);
  for (const Request& request : seen.requests) EXPECT_EQ(header(request, "host"), "bucket." + host);
  EXPECT_EQ(seen.requests.back().path, "/d/x");
}

TEST(S3Source, ARedirectToAnotherServiceIsNotFollowed) {
  LoopbackServer server, other;
  std::string where = other.url();
  where.replace(where.find("127.0.0.1"), 9, "localhost");
  const std::string body = "<Error><Code>PermanentRedirect</Code></Error>";
  for (const char* line : {"301 Moved Permanently", "302 Found", "307 Temporary Redirect"}) {
    server.set_before([&, line](const Request&, int) {
      return xml(line, body, "\r\nLocation: " + where + "/bucket/?X-Amz-Signature=hidden");
    });
    const auto store = store_for("s3://bucket/d", {signed_options(server)});
    const std::string said = error_text(*store, "s3://bucket/d");
    EXPECT_NE(said.find("redirects to " + where + "/bucket/, which is another service"),
              std::string::npos)
        << said;
    EXPECT_EQ(said.find("hidden"), std::string::npos) << said;
  }
  server.set_before([&](const Request&, int) {
    return xml("301 Moved Permanently", "<Error><Code>PermanentRedirect</Code><Endpoint>" +
                                            where.substr(7) + "</Endpoint></Error>");
  });
  const auto store = store_for("s3://bucket/d", {signed_options(server)});
  const std::string said = error_text(*store, "s3://bucket/d");
  EXPECT_NE(said.find("another service"), std::string::npos) << said;
  EXPECT_EQ(server.requests(), 4);
  EXPECT_EQ(other.requests(), 0);
}

// A region or bucket is part of the host name and must not end it.
TEST(S3Source, NamesThatWouldLeadToAnotherHost) {
  EXPECT_THROW(store_for("s3://bucket/d", {{{"region", "evil.example/#"}}}), InvalidArgument);
  LoopbackServer server;
  server.set_before([&](const Request&, int) {
    return xml("301 Moved Permanently", "<Error><Code>PermanentRedirect</Code></Error>",
               "\r\nx-amz-bucket-region: evil.example/#");
  });
  const auto store = store_for("s3://bucket/d", {signed_options(server)});
  EXPECT_NE(error_text(*store, "s3://bucket/d").find("301 Moved"), std::string::npos);
  EXPECT_EQ(server.requests(), 1);
  const Recorded seen(server);
  auto options = signed_options(server);
  options["addressing_style"] = "virtual";
  options["endpoint"] = "http://localhost" + server.url().substr(server.url().rfind(':'));
  const auto by_host = store_for("s3://bucket/d", {options});
  EXPECT_TRUE(by_host->list("s3://127.0.0.1#x/d").empty());
  server.set_before(nullptr);
  ASSERT_EQ(seen.requests.size(), 1u);
  EXPECT_EQ(seen.requests[0].path, "/127.0.0.1#x/");
}

TEST(XmlAnswer, ListingsAndErrors) {
  const auto page = parse_list_page(
      "<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</NextContinuationToken>"
      "<Contents><Key>a b/ä&lt;</Key><Size>12</Size><ETag>&quot;e&quot;</ETag></Contents>"
      "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes></ListBucketResult>");
  ASSERT_EQ(page.objects.size(), 1u);
  EXPECT_EQ(page.objects[0].path, "a b/ä<");
  EXPECT_EQ(page.objects[0].size_bytes, 12u);
  EXPECT_EQ(page.objects[0].etag, "\"e\"");
  EXPECT_EQ(page.prefixes, std::vector<std::string>{"c/"});
  EXPECT_EQ(page.continuation_token, "t&1");
  EXPECT_THROW(parse_list_page(""), CorruptData);
  EXPECT_THROW(parse_list_page("<html></html>"), CorruptData);
  EXPECT_THROW(parse_list_page("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents>"
                               "</ListBucketResult>"),
               CorruptData);
  EXPECT_THROW(
      parse_list_page("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
      CorruptData);
  EXPECT_EQ(parse_s3_error("<Error><Code>X</Code><Region>r</Region></Error>").region, "r");
  EXPECT_EQ(parse_s3_error("no xml").code, "");
}

TEST(S3Credentials, TimesAndAnswers) {
  using Clock = std::chrono::system_clock;
  EXPECT_EQ(parse_rfc3339("2026-11-21T21:21:30Z"), Clock::from_time_t(1795296090));
  EXPECT_EQ(parse_rfc3339("2026-11-21T21:21:30.123+00:00"), Clock::from_time_t(1795296090));
  EXPECT_FALSE(parse_rfc3339("2026-11-21"));
  EXPECT_FALSE(parse_rfc3339("2026-13-21T21:21:30Z"));
  const auto found = parse_credentials_json(
      R"({"AccessKeyId": "a", "SecretAccessKey": "s", "Token": "t", "Expiration": "2026-11-21T21:21:30Z"})");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key.session_token, "t");
  EXPECT_TRUE(found->end);
  EXPECT_FALSE(parse_credentials_json("{}"));
  EXPECT_FALSE(parse_credentials_json("[1"));
}

// Hosts that may get the token and return keys, as botocore allows them.
TEST(S3Credentials, AContainersServiceIsOfThisMachineOrEncrypted) {
  const auto said = [](const std::string& uri) -> std::string {
    ::setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.c_str(), 1);
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    std::string words = "no error";
    try {
      S3CredentialChain(S3CredentialOptions()).get();
    } catch (const Error& error) {
      words = error.what();
    }
    ::unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    ::unsetenv("AWS_EC2_METADATA_DISABLED");
    return words;
  };
  for (const char* uri : {"http://192.0.2.1/keys", "http://127.0.0.1.example.org/keys",
                          "http://127.0.0.1@192.0.2.1/keys?hidden", "ftp://127.0.0.1/keys",
                          "http://user:hidden@127.0.0.1/keys"}) {
    const std::string words = said(uri);
    EXPECT_NE(words.find("AWS_CONTAINER_CREDENTIALS_FULL_URI must be"), std::string::npos) << words;
    EXPECT_EQ(words.find("hidden"), std::string::npos) << words;
  }
  LoopbackServer server;
  server.set_before([&](const Request&, int) {
    return xml("200 OK", R"({"AccessKeyId": "a", "SecretAccessKey": "s"})");
  });
  EXPECT_EQ(said(server.url() + "/keys?id=1"), "no error");
}

// DataLoader workers are forked while other loaders read.
TEST(S3Credentials, AChildOfAForkDoesNotWaitForItsParentsThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows no threads in a forked child";
#endif
  std::string config = ::testing::TempDir() + "penstock-config-XXXXXX";
  ::close(::mkstemp(config.data()));
  std::ofstream(config) << "[profile p]\ncredential_process = somewhere\n";
  ::setenv("AWS_CONFIG_FILE", config.c_str(), 1);
  std::atomic<bool> asked{false}, go_on{false};
  const pid_t parent = ::getpid();
  S3CredentialOptions options;
  options.profile = "p";
  options.fallback = [&](const std::string&) {
    asked = true;
    while (::getpid() == parent && !go_on) std::this_thread::yield();
    return std::map<std::string, std::string>{{"access_key_id", "a"}, {"secret_access_key", "s"}};
  };
  S3CredentialChain chain(options);
  std::thread thread([&] { EXPECT_EQ(chain.get().access_key_id, "a"); });
  while (!asked) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // instead of waiting for ever
    ::_exit(chain.get().secret_access_key == "s" ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  go_on = true;
  thread.join();
  ::unsetenv("AWS_CONFIG_FILE");
  std::filesystem::remove(config);
}

}  // namespace
}  // namespace penstock::io
