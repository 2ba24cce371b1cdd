#include "io/http/http_engine.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "io/http/range_transfer.h"
#include "io/testing/loopback_server.h"

// Limits of the engine: requests at once, bytes in flight, delays and number of attempts.

namespace penstock::io {
namespace {

using Answer = LoopbackServer::Answer;
using Request = LoopbackServer::Request;
using Clock = std::chrono::steady_clock;

/// Counts what runs at once; only the engine's thread counts.
struct UnderWay {
  size_t requests = 0, most_requests = 0;
  uint64_t bytes = 0, most_bytes = 0;
};

class Counted final : public Transfer {
 public:
  Counted(std::string url, UnderWay& under_way, std::span<std::byte> sink = {})
      : Transfer(sink), url_(std::move(url)), under_way_(under_way) {}

  HttpRequest prepare() override {
    ++attempts;
    under_way_.most_requests = std::max(under_way_.most_requests, ++under_way_.requests);
    under_way_.bytes += sink().size();
    under_way_.most_bytes = std::max(under_way_.most_bytes, under_way_.bytes);
    HttpRequest request;
    request.url = url_;
    return request;
  }
  Verdict judge(const HttpResponse& response) override {
    --under_way_.requests;
    under_way_.bytes -= sink().size();
    if (redirects_left > 0) {
      --redirects_left;
      return {Verdict::Kind::kAgain, "", 0, nullptr};
    }
    Verdict verdict;
    retry_later(response, verdict);
    return verdict;
  }
  std::string place() const override { return url_; }

  int attempts = 0;
  int redirects_left = 0;

 private:
  const std::string url_;
  UnderWay& under_way_;
};

std::vector<Transfer*> pointers_to(std::vector<Counted>& transfers) {
  std::vector<Transfer*> pointers(transfers.size());
  std::transform(transfers.begin(), transfers.end(), pointers.begin(),
                 [](Counted& each) { return &each; });
  return pointers;
}

Answer status(const std::string& line, const std::string& fields = "") {
  return {"HTTP/1.1 " + line + "\r\nContent-Length: 0" + fields, "", false};
}

std::string message_of(HttpEngine& engine, Transfer& transfer) {
  try {
    engine.run(transfer);
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HttpEngine, NoMoreRequestsAtOnceThanAreAllowed) {
  LoopbackServer server;
  server.put("/x", "0123456789");
  HttpOptions options;
  options.max_requests = 3;
  HttpEngine engine(options);
  UnderWay under_way;
  std::vector<Counted> all(40, Counted(server.url() + "/x", under_way));
  engine.run(pointers_to(all));
  EXPECT_EQ(under_way.most_requests, 3U);
  EXPECT_EQ(under_way.requests, 0U);
  EXPECT_EQ(engine.counts().requests, 40U);
  EXPECT_EQ(engine.counts().bytes, 400U);
}

TEST(HttpEngine, NoMoreBytesAtOnceThanAreAllowed) {
  LoopbackServer server;
  server.put("/x", std::string(400, 'x'));
  server.put("/large", std::string(5000, 'y'));
  HttpOptions options;
  options.max_bytes_in_flight = 1000;
  HttpEngine engine(options);
  UnderWay under_way;
  std::vector<std::vector<std::byte>> sinks(20, std::vector<std::byte>(400));
  std::vector<Counted> all;
  all.reserve(sinks.size() + 1);
  for (auto& sink : sinks) all.emplace_back(server.url() + "/x", under_way, sink);
  engine.run(pointers_to(all));
  EXPECT_EQ(under_way.most_bytes, 800U);
  for (const auto& sink : sinks) EXPECT_EQ(sink, std::vector<std::byte>(400, std::byte{'x'}));
  // A transfer that is larger than the limit runs, but alone.
  std::vector<std::byte> large(5000);
  all.emplace_back(server.url() + "/large", under_way, large);
  engine.run(pointers_to(all));
  EXPECT_EQ(under_way.most_bytes, 5000U);
  EXPECT_EQ(large, std::vector<std::byte>(5000, std::byte{'y'}));
}

TEST(HttpEngine, RetryAfterIsWaitedForWithinReason) {
  LoopbackServer server;
  server.put("/x", "0123456789");
  const auto refuse_once = [&](const std::string& seconds) {
    auto left = std::make_shared<std::atomic<int>>(1);
    server.set_before([=](const Request&, int) {
      if ((*left)-- <= 0) return Answer{};
      return status("503 Service Unavailable", "\r\nRetry-After: " + seconds);
    });
  };
  HttpOptions options;
  UnderWay under_way;
  {
    HttpEngine engine(options);
    refuse_once("1");
    Counted transfer(server.url() + "/x", under_way);
    const auto begin = Clock::now();
    engine.run(transfer);
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(950));
    EXPECT_EQ(transfer.attempts, 2);
    EXPECT_EQ(engine.counts().retries, 1U);
    // Longer than the retry timeout: fails at once.
    refuse_once("25");
    options.retry_timeout_seconds = 20;
    HttpEngine impatient(options);
    EXPECT_NE(message_of(impatient, transfer).find("after 1 attempt in"), std::string::npos);
  }
  options.longest_retry_after_seconds = 0.1;
  HttpEngine engine(options);
  refuse_once("86400");
  Counted transfer(server.url() + "/x", under_way);
  engine.run(transfer);
  EXPECT_EQ(transfer.attempts, 2);
}

TEST(HttpEngine, AttemptsComeSlowerAndSlowerUntilTheirTimeIsOver) {
  LoopbackServer server;
  server.set_before([](const Request&, int) { return status("500 Internal Server Error"); });
  HttpOptions options;
  options.retry_timeout_seconds = 0.6;
  options.max_attempts = 100'000;
  HttpEngine engine(options);
  UnderWay under_way;
  Counted transfer(server.url() + "/x", under_way);
  const std::string said = message_of(engine, transfer);
  EXPECT_NE(said.find("500 Internal Server Error, after "), std::string::npos) << said;
  // Without back-off hundreds. With it a 25th would need delays that are all next to nothing.
  EXPECT_LT(transfer.attempts, 25);
}

TEST(HttpEngine, BackOffIsAnythingUpToACeilingThatDoubles) {
  std::mt19937_64 random(1);
  for (const auto& [attempts, ceiling] : std::vector<std::pair<int, double>>{
           {1, 0.1}, {2, 0.2}, {3, 0.4}, {7, 6.4}, {8, 10}, {40, 10}, {100'000, 10}}) {
    double least = ceiling, most = 0;
    for (int i = 0; i < 1000; ++i) {
      const double delay = back_off_seconds(attempts, random);
      least = std::min(least, delay);
      most = std::max(most, delay);
    }
    EXPECT_GE(least, 0) << attempts;
    EXPECT_LT(least, ceiling * 0.05) << attempts;
    EXPECT_GT(most, ceiling * 0.95) << attempts;
    EXPECT_LE(most, ceiling) << attempts;
  }
}

/// The pauses between an answer and the next attempt.
class Paused final : public Transfer {
 public:
  explicit Paused(std::string url) : url_(std::move(url)) {}

  HttpRequest prepare() override {
    if (answered_ != Clock::time_point()) pauses.push_back(Clock::now() - answered_);
    HttpRequest request;
    request.url = url_;
    return request;
  }
  Verdict judge(const HttpResponse& response) override {
    answered_ = Clock::now();
    Verdict verdict;
    retry_later(response, verdict);
    return verdict;
  }
  std::string place() const override { return url_; }

  std::vector<Clock::duration> pauses;

 private:
  const std::string url_;
  Clock::time_point answered_;
};

TEST(HttpEngine, ClientsThatFailTogetherDoNotComeAgainTogether) {
  LoopbackServer server;
  server.set_before([](const Request&, int) { return status("500 Internal Server Error"); });
  HttpOptions options;
  options.max_attempts = 5;
  constexpr size_t kClients = 4;
  std::vector<Paused> transfers(kClients, Paused(server.url() + "/x"));
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (Paused& transfer : transfers) {
    clients.emplace_back([&] {
      HttpEngine engine(options);
      EXPECT_NE(message_of(engine, transfer).find("after 5 attempts"), std::string::npos);
    });
  }
  for (std::thread& client : clients) client.join();
  std::set<int64_t> sums;  // in steps of 5 ms
  for (const Paused& transfer : transfers) {
    ASSERT_EQ(transfer.pauses.size(), 4U);
    Clock::duration sum{};
    for (const auto pause : transfer.pauses) sum += pause;
    sums.insert(sum / std::chrono::milliseconds(5));
  }
  EXPECT_GT(sums.size(), 1U);  // of four out of 0 to 1.5 s
}

TEST(HttpEngine, RedirectsAreNoAttempts) {
  LoopbackServer server;
  server.set_before([](const Request&, int) { return status("500 Internal Server Error"); });
  HttpOptions options;
  options.max_attempts = 1;
  HttpEngine engine(options);
  UnderWay under_way;
  Counted transfer(server.url() + "/x", under_way);
  transfer.redirects_left = 2;
  const std::string said = message_of(engine, transfer);
  EXPECT_NE(said.find("after 1 attempt in"), std::string::npos) << said;
  EXPECT_EQ(transfer.attempts, 3);
  transfer.redirects_left = 100;
  EXPECT_NE(message_of(engine, transfer).find("redirected more than 5 times"), std::string::npos);
}

}  // namespace
}  // namespace penstock::io
