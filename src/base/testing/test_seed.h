#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/concat.h"

// Seeds of tests with random cases. PENSTOCK_TEST_SEED, a whole number, moves them to other cases:
// `make test-all` sets it. Without it a test has the same cases every time.
//
//   const TestSeed seed(1);          // while it lives, failures print it
//   std::mt19937_64 random(seed);
//
// Tests that expect a statistic of their cases keep fixed seeds.

namespace penstock {

/// The number in PENSTOCK_TEST_SEED, 0 without it.
inline uint64_t test_seed_variable() {
  const char* const value = std::getenv("PENSTOCK_TEST_SEED");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty()) return 0;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument(concat("PENSTOCK_TEST_SEED must be a whole number, got ", text));
  }
  return number;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Whether long tests have fewer cases: under a sanitizer. `make test-all` sets PENSTOCK_TEST_FULL,
/// and all builds have all cases.
inline bool has_fewer_cases() {
  return kIsSanitized && std::getenv("PENSTOCK_TEST_FULL") == nullptr;
}

/// How many random cases a long test has: `full`, or a quarter.
inline uint64_t test_rounds(uint64_t full) { return has_fewer_cases() ? full / 4 : full; }

/// Bytes from one place where a test flips or cuts to the next: `full`, or five times that.
inline uint64_t test_step(uint64_t full) { return has_fewer_cases() ? 5 * full : full; }

class TestSeed {
 public:
  explicit TestSeed(uint64_t own, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : seed_(own + kApart * test_seed_variable()),
        text_(concat("seed ", own, " with PENSTOCK_TEST_SEED=", test_seed_variable())),
        trace_(file, line, text_) {}
  /// An exception ends the trace before gtest reports it.
  ~TestSeed() {
    if (std::uncaught_exceptions() > exceptions_) std::cerr << "exception at " << text_ << '\n';
  }
  TestSeed(const TestSeed&) = delete;
  TestSeed& operator=(const TestSeed&) = delete;

  operator uint64_t() const noexcept { return seed_; }

 private:
  /// Neighbouring numbers, such as the dates of two days, have no seeds in common.
  static constexpr uint64_t kApart = 1'000'003;

  uint64_t seed_;
  std::string text_;
  ::testing::ScopedTrace trace_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace penstock
