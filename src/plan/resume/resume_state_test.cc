#include <gtest/gtest.h>
#include <penstock/error.h>
#include <penstock/resume.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/testing/test_data.h"
#include "base/testing/test_seed.h"
#include "plan/resume/segment_plan.h"

// The saved form of a state: what is written is read again, and anything else is an error.

namespace penstock {
namespace {

using nlohmann::json;

ResumeState random_state(std::mt19937_64& random) {
  ResumeState state;
  state.epoch = random() >> 3;
  state.selection = {random(), random(), random(), random(), random()};
  for (uint64_t i = random() % 4; i > 0; --i) {
    ResumeSegment segment;
    OrderSettings& order = segment.order;
    order.world_size = 1 + static_cast<uint32_t>(random() % 65536);
    order.num_workers = 1 + static_cast<uint32_t>(random() % 4096);
    order.batch_size = 1 + static_cast<uint32_t>(random() % INT32_MAX);
    order.min_batch = 1 + static_cast<uint32_t>(random() % order.batch_size);
    order.seed = random();
    order.memory_budget = 1 + random() / 4;
    order.sparse = random() % 2 == 0;
    order.dtype = random() % 2 == 0 ? DataType::kFloat64 : DataType::kUInt16;
    order.drop_last = random() % 2 == 0;
    order.uneven = static_cast<UnevenRows>(random() % 3);
    order.sampling = random();
    if (random() % 2 == 0) order.kept_memory = random() / 4;
    switch (random() % 4) {
      case 0:
        order.shuffle = false;
        break;
      case 1:
        order.global_shuffle = true;
        order.memory_budget = order.kept_memory = 0;
        break;
      case 2:
        order.chunk_size = 1 + static_cast<uint32_t>(random() % 1000);
        order.chunks_per_block = 1 + static_cast<uint32_t>(random() % 1000);
        break;
      default:
        break;
    }
    segment.plan = random();
    segment.active_workers = 1 + static_cast<uint32_t>(random() % order.num_workers);
    segment.batches = random() % (uint64_t{1} << 40);
    state.segments.push_back(segment);
  }
  if (random() % 2 == 0) {
    state.worker = static_cast<uint32_t>(random() % 4096);
    state.as_worker = static_cast<uint32_t>(random() % 4096);
  }
  return state;
}

std::string reason(const std::string& text) {
  try {
    ResumeState::from_json(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(ResumeState, IsReadAsItWasWritten) {
  const TestSeed seed(1);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const ResumeState state = random_state(random);
    ASSERT_EQ(ResumeState::from_json(state.to_json()), state) << state.to_json();
  }
}

TEST(ResumeState, StatesOfThePythonPackageAreKeptToTheLetter) {
  std::ifstream file(test_data("saved_states.json"));
  const json records = json::parse(file);
  ASSERT_GT(records.size(), 20U);
  for (const json& record : records) {
    const json& saved = record.at("state");
    ASSERT_EQ(json::parse(ResumeState::from_json(saved.dump()).to_json()), saved);
  }
}

TEST(ResumeState, FieldsThatCameLaterMayBeAbsent) {
  const TestSeed seed(2);
  std::mt19937_64 random(seed);
  ResumeState state = random_state(random);
  while (state.segments.empty()) state = random_state(random);
  state.segments.resize(1);
  OrderSettings& order = state.segments[0].order;
  order.sampling = 0;
  order.chunk_size = order.chunks_per_block = 0;
  order.global_shuffle = false;
  order.memory_budget = 7;
  state.segments[0].active_workers = order.num_workers;
  json old = json::parse(state.to_json());
  for (const char* name :
       {"sampling", "chunk_size", "chunks_per_block", "global_shuffle", "lanes"}) {
    old["segments"][0].erase(name);
  }
  EXPECT_EQ(ResumeState::from_json(old.dump()), state);
}

TEST(ResumeState, EachValueReplacedOrLeftOutIsRefusedOrRead) {
  const TestSeed seed(3);
  std::mt19937_64 random(seed);
  const json odd = json::parse(
      R"([null, true, -1, 0, 1, 4294967296, 18446744073709551615, 1e300, 0.5, "", "x", [], {}, [[]]])");
  int refused = 0, read = 0;
  const auto check = [&](const json& damaged) {
    const std::string text = damaged.dump();
    try {
      const ResumeState state = ResumeState::from_json(text);
      ASSERT_EQ(ResumeState::from_json(state.to_json()), state) << text;
      ++read;
    } catch (const InvalidArgument& error) {
      ASSERT_TRUE(std::string(error.what()).starts_with("the state ")) << error.what();
      ++refused;
    }
  };
  for (int i = 0; i < 30; ++i) {
    const json state = json::parse(random_state(random).to_json());
    const json flat = state.flatten();
    for (const auto& item : flat.items()) {
      const json::json_pointer place(item.key());
      for (const json& value : odd) {
        json damaged = state;
        damaged[place] = value;
        check(damaged);
      }
      json damaged = state;
      if (damaged[place.parent_pointer()].is_object()) {
        damaged[place.parent_pointer()].erase(place.back());
        check(damaged);
      }
    }
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(read, 300);
}

TEST(ResumeState, BrokenTextIsRefused) {
  const TestSeed seed(4);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 50; ++i) {
    const std::string text = random_state(random).to_json();
    for (size_t length = 0; length < text.size(); length += 1 + random() % 9) {
      ASSERT_NE(reason(text.substr(0, length)), "") << text.substr(0, length);
    }
  }
  EXPECT_NE(reason(std::string(2'000'000, '[')), "");
  EXPECT_NE(reason(std::string(100'000, '[')), "");
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_EQ(reason(deep), "the state is damaged: a state must be an object, got a list");
  EXPECT_EQ(reason("{\"version\": " + deep + "}"),
            "the state has version a list, this penstock reads 1");
  EXPECT_EQ(reason(R"({"version": 2})"), "the state has version 2, this penstock reads 1");
  EXPECT_EQ(reason(R"({"version": 1})"), "the state is damaged: epoch is missing");
  EXPECT_EQ(reason("[]"), "the state is damaged: a state must be an object, got a list");
}

TEST(ResumeState, WhatNobodyCouldLoadIsNotWritten) {
  ResumeState state;
  state.epoch = (uint64_t{1} << 62) + 1;
  EXPECT_THROW(state.to_json(), InvalidArgument);
  state.epoch = 1;
  state.segments.emplace_back();
  EXPECT_THROW(state.to_json(), InvalidArgument);  // no memory_budget
  LoaderOptions options;
  options.memory_budget = UINT64_MAX;
  state.segments[0].order = OrderSettings::of(options);
  EXPECT_EQ(ResumeState::from_json(state.to_json()), state);
  state.segments.resize(1001, state.segments[0]);
  EXPECT_THROW(state.to_json(), InvalidArgument);
}

TEST(ResumeState, TheMessageNamesFieldAndValue) {
  const TestSeed seed(5);
  std::mt19937_64 random(seed);
  ResumeState state = random_state(random);
  while (state.segments.empty()) state = random_state(random);
  json damaged = json::parse(state.to_json());
  damaged["segments"][0]["world_size"] = 65537;
  EXPECT_EQ(reason(damaged.dump()),
            "the state is damaged: world_size must be an integer from 1 to 65536, got 65537");
}

TEST(ResumeState, BatchesOfWorkersAreTakenInTurns) {
  for (uint32_t active_workers = 1; active_workers < 6; ++active_workers) {
    std::array<uint64_t, 6> counts{};
    for (uint64_t batches = 0; batches < 20; ++batches) {
      for (uint32_t worker = 0; worker < active_workers; ++worker) {
        ASSERT_EQ(plan::batches_of_worker(batches, worker, active_workers), counts.at(worker));
      }
      ++counts.at(batches % active_workers);
    }
  }
}

TEST(ResumeState, OfAWorkerFitsTheSameWorkerOfAsMany) {
  ResumeState state;
  state.segments.emplace_back();
  state.segments[0].order.num_workers = 3;
  EXPECT_NO_THROW(state.check_worker(7, 9));
  state.worker = 1;
  EXPECT_NO_THROW(state.check_worker(1, 3));
  EXPECT_THROW(state.check_worker(2, 3), InvalidArgument);
  EXPECT_THROW(state.check_worker(1, 2), InvalidArgument);
}

// Settings made by hand are refused as those that are read: to_json() reads what it wrote.
TEST(OrderSettings, AMixThatNoEpochHasIsRefusedInBothForms) {
  LoaderOptions options;
  options.memory_budget = 1000;
  const OrderSettings good = OrderSettings::of(options);
  EXPECT_NO_THROW(good.apply_to({}));
  const auto message_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  const auto expect_refused = [&](const std::string& message, const auto& change) {
    ResumeState state;
    OrderSettings& order = state.segments.emplace_back().order;
    order = good;
    change(order);
    const std::string expected = "the state is damaged: " + message;
    EXPECT_EQ(message_of([&] { state.to_json(); }), expected);
    EXPECT_EQ(message_of([&] { order.apply_to({}); }), expected);
  };
  expect_refused(
      "no shuffle has shuffle=false, global_shuffle=true, chunk_size=0, chunks_per_block=0",
      [](OrderSettings& order) { order.shuffle = false, order.global_shuffle = true; });
  expect_refused(
      "no shuffle has shuffle=true, global_shuffle=true, chunk_size=8, chunks_per_block=2",
      [](OrderSettings& order) {
        order.global_shuffle = true;
        order.chunk_size = 8, order.chunks_per_block = 2;
      });
  expect_refused(
      "no shuffle has shuffle=false, global_shuffle=false, chunk_size=8, chunks_per_block=2",
      [](OrderSettings& order) {
        order.shuffle = false;
        order.chunk_size = 8, order.chunks_per_block = 2;
      });
  expect_refused(
      "no shuffle has shuffle=true, global_shuffle=false, chunk_size=8, chunks_per_block=0",
      [](OrderSettings& order) { order.chunk_size = 8; });
  expect_refused("min_batch 9 is more than batch_size 8",
                 [](OrderSettings& order) { order.batch_size = 8, order.min_batch = 9; });
  expect_refused("memory_budget is 0", [](OrderSettings& order) { order.memory_budget = 0; });
}

TEST(OrderSettings, OptionsThatTheyMakeHaveThem) {
  const TestSeed seed(6);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 300; ++i) {
    for (ResumeSegment& segment : random_state(random).segments) {
      segment.order.sampling = 0;
      const OrderSettings order = segment.order;
      ASSERT_EQ(OrderSettings::of(order.apply_to({})), order);
      OrderSettings own = order;
      own.memory_budget = order.global_shuffle ? 0 : 5;
      own.kept_memory = order.global_shuffle ? 0 : 7;
      own.num_workers += 1;
      own.sparse = !own.sparse;
      own.dtype = DataType::kInt8;
      ASSERT_TRUE(order.same_for_ranks(own));
      own.seed += 1;
      ASSERT_FALSE(order.same_for_ranks(own));
    }
  }
}

}  // namespace
}  // namespace penstock
