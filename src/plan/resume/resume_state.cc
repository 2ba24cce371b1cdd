#include <penstock/error.h>
#include <penstock/resume.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "plan/resume/check_order.h"

namespace penstock {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;  // for what is written
using plan::damaged;

constexpr uint64_t kVersion = 1;

// A saved file may hold anything, and what is planned from it must not take more memory than an
// epoch that somebody has read.
constexpr uint64_t kMostEpoch = uint64_t{1} << 62;
constexpr uint64_t kMostRanks = uint64_t{1} << 16;
constexpr uint64_t kMostWorkers = uint64_t{1} << 12;
constexpr uint64_t kMostBatchSize = (uint64_t{1} << 31) - 1;
constexpr size_t kMostSegments = 1000;
constexpr size_t kMostText = size_t{1} << 20;

constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();

constexpr std::array kDataTypes = {
    DataType::kFloat32, DataType::kFloat64, DataType::kInt8,   DataType::kUInt8, DataType::kInt16,
    DataType::kUInt16,  DataType::kInt32,   DataType::kUInt32, DataType::kInt64, DataType::kUInt64};
constexpr std::array kUneven = {std::pair{UnevenRows::kDrop, std::string_view("drop")},
                                std::pair{UnevenRows::kPad, std::string_view("pad")},
                                std::pair{UnevenRows::kExact, std::string_view("exact")}};

/// A list or an object is not written out: it may be nested deeper than a stack.
std::string shown(const json& value) {
  constexpr size_t kMost = 60;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
}

/// The fields of a JSON object, checked.
class Fields {
 public:
  Fields(const json& object, const char* what) : object_(object) {
    if (!object.is_object())
      damaged(std::string(what) + " must be an object, got " + shown(object));
  }

  /// Null where it is absent.
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  const json& get(const char* name) const {
    const json* found = find(name);
    if (found == nullptr) damaged(std::string(name) + " is missing");
    return *found;
  }
  template <typename Number>
  Number number(const char* name, uint64_t least, uint64_t most) const {
    return checked<Number>(name, get(name), least, most);
  }
  /// As number(), or what states from before the field have.
  template <typename Number>
  Number number_or(Number absent, const char* name, uint64_t least, uint64_t most) const {
    const json* found = find(name);
    return found == nullptr ? absent : checked<Number>(name, *found, least, most);
  }
  bool flag(const char* name) const { return checked_flag(name, get(name)); }
  bool flag_or(bool absent, const char* name) const {
    const json* found = find(name);
    return found == nullptr ? absent : checked_flag(name, *found);
  }

 private:
  template <typename Number>
  static Number checked(const char* name, const json& value, uint64_t least, uint64_t most) {
    if (value.is_number_unsigned()) {
      const auto number = value.get<uint64_t>();
      if (least <= number && number <= most) return static_cast<Number>(number);
    }
    damaged(std::string(name) + " must be an integer from " + std::to_string(least) + " to " +
            std::to_string(most) + ", got " + shown(value));
  }
  static bool checked_flag(const char* name, const json& value) {
    if (!value.is_boolean()) {
      damaged(std::string(name) + " must be true or false, got " + shown(value));
    }
    return value.get<bool>();
  }

  const json& object_;
};

DataType read_dtype(const json& value) {
  std::string names;
  for (const DataType type : kDataTypes) {
    if (value.is_string() && value == name_of(type)) return type;
    names += (names.empty() ? "" : ", ") + std::string(name_of(type));
  }
  damaged("dtype must be one of " + names + ", got " + shown(value));
}

UnevenRows read_uneven(const json& value) {
  for (const auto& [uneven, name] : kUneven) {
    if (value.is_string() && value == name) return uneven;
  }
  damaged("uneven must be one of drop, pad, exact, got " + shown(value));
}

std::string_view name_of_uneven(UnevenRows uneven) {
  const auto* found = std::find_if(kUneven.begin(), kUneven.end(),
                                   [&](const auto& each) { return each.first == uneven; });
  return found == kUneven.end() ? "" : found->second;
}

ResumeSegment read_segment(const json& value) {
  const Fields fields(value, "a segment");
  ResumeSegment segment;
  OrderSettings& order = segment.order;
  order.world_size = fields.number<uint32_t>("world_size", 1, kMostRanks);
  order.num_workers = fields.number<uint32_t>("num_workers", 1, kMostWorkers);
  order.batch_size = fields.number<uint32_t>("batch_size", 1, kMostBatchSize);
  order.shuffle = fields.flag("shuffle");
  order.seed = fields.number<uint64_t>("seed", 0, kAny);
  order.memory_budget = fields.number<uint64_t>("memory_budget", 0, kAny >> 1);
  order.sparse = fields.flag("sparse");
  order.dtype = read_dtype(fields.get("dtype"));
  order.drop_last = fields.flag("drop_last");
  order.min_batch = fields.number<uint32_t>("min_batch", 1, kMostBatchSize);
  order.uneven = read_uneven(fields.get("uneven"));
  order.sampling = fields.number_or<uint64_t>(0, "sampling", 0, kAny);
  order.chunk_size = fields.number_or<uint32_t>(0, "chunk_size", 0, kMostBatchSize);
  order.chunks_per_block = fields.number_or<uint32_t>(0, "chunks_per_block", 0, kMostBatchSize);
  order.global_shuffle = fields.flag_or(false, "global_shuffle");
  order.kept_memory = fields.number_or<uint64_t>(0, "kept_memory", 0, kAny >> 1);
  plan::check_order(order);
  segment.active_workers =
      fields.number_or<uint32_t>(order.num_workers, "lanes", 1, order.num_workers);
  segment.plan = fields.number<uint64_t>("plan", 0, kAny);
  segment.batches = fields.number<uint64_t>("batches", 0, kMostEpoch);
  return segment;
}

ordered_json write_segment(const ResumeSegment& segment) {
  const OrderSettings& order = segment.order;
  ordered_json written = {{"world_size", order.world_size},
                          {"num_workers", order.num_workers},
                          {"batch_size", order.batch_size},
                          {"shuffle", order.shuffle},
                          {"seed", order.seed},
                          {"memory_budget", order.memory_budget},
                          {"sparse", order.sparse},
                          {"dtype", name_of(order.dtype)},
                          {"drop_last", order.drop_last},
                          {"min_batch", order.min_batch},
                          {"uneven", name_of_uneven(order.uneven)},
                          {"sampling", order.sampling},
                          {"chunk_size", order.chunk_size},
                          {"chunks_per_block", order.chunks_per_block},
                          {"global_shuffle", order.global_shuffle},
                          {"plan", segment.plan},
                          {"lanes", segment.active_workers},
                          {"batches", segment.batches}};
  if (order.kept_memory != 0) written["kept_memory"] = order.kept_memory;
  return written;
}

SelectionFingerprint read_selection(const json& value) {
  const Fields fields(value, "selection");
  const auto hash = [&](const char* name) { return fields.number<uint64_t>(name, 0, kAny); };
  return {hash("cells"), hash("genes"), hash("layer"), hash("transforms"), hash("joined")};
}

ordered_json write_selection(const SelectionFingerprint& selection) {
  return {{"cells", selection.cells},
          {"genes", selection.genes},
          {"layer", selection.layer},
          {"transforms", selection.transforms},
          {"joined", selection.joined}};
}

}  // namespace

std::string SelectionFingerprint::differences(const SelectionFingerprint& other) const {
  std::string found;
  const auto compare = [&](uint64_t here, uint64_t there, const char* name) {
    if (here != there) found += (found.empty() ? "other " : " and other ") + std::string(name);
  };
  compare(cells, other.cells, "cells");
  compare(genes, other.genes, "genes");
  compare(layer, other.layer, "layer");
  compare(transforms, other.transforms, "transforms");
  compare(joined, other.joined, "joined experiments or genes matched");
  return found;
}

std::string ResumeState::to_json() const {
  ordered_json segments_json = ordered_json::array();
  for (const ResumeSegment& segment : segments) segments_json.push_back(write_segment(segment));
  ordered_json state = {{"version", kVersion},
                        {"epoch", epoch},
                        {"selection", write_selection(selection)},
                        {"segments", std::move(segments_json)}};
  if (worker) {
    state["worker"] = *worker;
    state["lane"] = as_worker.value_or(*worker);
  }
  std::string text = state.dump();
  from_json(text);  // whoever saves it learns now that nobody could load it
  return text;
}

ResumeState ResumeState::from_json(std::string_view text) {
  if (text.size() > kMostText) {
    damaged("a state has at most " + std::to_string(kMostText) + " bytes, got " +
            std::to_string(text.size()));
  }
  const json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) damaged("it is no JSON");
  const Fields fields(parsed, "a state");
  const json& version = fields.get("version");
  if (!version.is_number_unsigned() || version.get<uint64_t>() != kVersion) {
    throw InvalidArgument("the state has version " + shown(version) + ", this penstock reads " +
                          std::to_string(kVersion));
  }
  ResumeState state;
  state.epoch = fields.number<uint64_t>("epoch", 0, kMostEpoch);
  state.selection = read_selection(fields.get("selection"));
  const json& segments = fields.get("segments");
  if (!segments.is_array() || segments.size() > kMostSegments) {
    damaged("segments must be a list of at most " + std::to_string(kMostSegments) + ", got " +
            shown(segments));
  }
  for (const json& segment : segments) state.segments.push_back(read_segment(segment));
  const json* worker = fields.find("worker");
  if (worker != nullptr && !worker->is_null()) {
    state.worker = fields.number<uint32_t>("worker", 0, kMostWorkers - 1);
    state.as_worker = fields.number<uint32_t>("lane", 0, kMostWorkers - 1);
  }
  return state;
}

void ResumeState::check_worker(uint32_t this_worker, uint32_t num_workers) const {
  if (!worker) return;
  const uint32_t workers = segments.empty() ? 0 : segments.back().order.num_workers;
  if (*worker == this_worker && workers == num_workers) return;
  throw InvalidArgument(
      "the state is of DataLoader worker " + std::to_string(*worker) + " of " +
      std::to_string(workers) + ", but this is worker " + std::to_string(this_worker) + " of " +
      std::to_string(num_workers) +
      ": keep num_workers, or save Dataset.state_dict of the main process, which fits any number "
      "of workers");
}

}  // namespace penstock
