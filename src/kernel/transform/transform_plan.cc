#include <penstock/error.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "kernel/transform/row_transform.h"

// Checks a TransformPlan, which a user may have filled in by hand.

namespace penstock::kernel {
namespace {

using Kind = TransformStep::Kind;

[[noreturn]] void refuse(const std::string& what) { throw InvalidArgument("transforms: " + what); }

void check_length(const char* what, size_t length, uint32_t columns) {
  if (length == columns) return;
  refuse(std::string(what) + " must have one number for each column: " + std::to_string(length) +
         " for " + std::to_string(columns) + " columns");
}

void check_positive(const char* what, double value) {
  if (value > 0 && std::isfinite(value)) return;
  refuse(std::string(what) + " must be more than 0: " + std::to_string(value));
}

void check_clip(const TransformStep& step, bool dense) {
  if (!(step.low <= step.high)) {
    refuse("clip needs low <= high: " + std::to_string(step.low) + ", " +
           std::to_string(step.high));
  }
  if (!dense && (step.low > 0 || step.high < 0)) {
    refuse("clip to a range without 0 would make every zero a value: " + std::to_string(step.low) +
           " to " + std::to_string(step.high));
  }
}

void check_scale(const TransformStep& step, uint32_t columns) {
  if (step.scale == nullptr) refuse("scale has no numbers");
  check_length("scale", step.scale->size(), columns);
  for (size_t i = 0; i < step.scale->size(); ++i) {
    if (!std::isfinite((*step.scale)[i]) || (*step.scale)[i] == 0) {
      refuse("scale must be finite and not 0: " + std::to_string((*step.scale)[i]) +
             ", of column " + std::to_string(i));
    }
  }
  if (step.mean == nullptr) return;
  check_length("mean", step.mean->size(), columns);
  for (size_t i = 0; i < step.mean->size(); ++i) {
    if (!std::isfinite((*step.mean)[i])) {
      refuse("mean must be finite: " + std::to_string((*step.mean)[i]) + ", of column " +
             std::to_string(i));
    }
  }
}

void check_places(const TransformStep& step, uint32_t columns) {
  if (step.places == nullptr) refuse("columns have no places");
  check_length("places", step.places->size(), columns);
  if (step.columns > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    refuse("too many columns: " + std::to_string(step.columns));
  }
  std::vector<bool> taken(step.columns, false);
  for (const int32_t place : *step.places) {
    if (place == -1) continue;
    if (place < 0 || static_cast<uint32_t>(place) >= step.columns) {
      refuse("a place is outside the columns: " + std::to_string(place) + " of " +
             std::to_string(step.columns));
    }
    if (taken[static_cast<size_t>(place)]) {
      refuse("two columns have the same place: " + std::to_string(place));
    }
    taken[static_cast<size_t>(place)] = true;
  }
}

void check_tokens(const RankTokens& tokens, uint32_t columns) {
  check_length("medians", tokens.medians.size(), columns);
  check_length("tokens", tokens.tokens.size(), columns);
  check_positive("target", tokens.target);
  const uint32_t ends = (tokens.first ? 1U : 0U) + (tokens.last ? 1U : 0U);
  if (tokens.max_tokens <= ends) {
    refuse("max_tokens leaves no place for genes: " + std::to_string(tokens.max_tokens));
  }
  if (tokens.max_tokens > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    refuse("max_tokens is too large: " + std::to_string(tokens.max_tokens));
  }
  if (tokens.dtype != DataType::kInt32 && tokens.dtype != DataType::kInt64) {
    refuse("tokens are int32 or int64, not " + std::string(name_of(tokens.dtype)));
  }
  if (tokens.dtype == DataType::kInt64) return;
  const auto check_fits = [](int64_t token) {
    if (std::in_range<int32_t>(token)) return;
    refuse("a token does not fit int32: " + std::to_string(token));
  };
  for (const int64_t token : tokens.tokens) check_fits(token);
  check_fits(tokens.pad);
  check_fits(tokens.first.value_or(0));
  check_fits(tokens.last.value_or(0));
}

}  // namespace

uint32_t columns_after(const TransformPlan& plan, uint32_t columns) {
  for (const TransformStep& step : plan.steps) {
    if (step.kind == Kind::kColumns) columns = step.columns;
  }
  return columns;
}

bool has_dense_steps(const TransformPlan& plan) noexcept {
  for (const TransformStep& step : plan.steps) {
    if (step.kind == Kind::kScale && step.mean != nullptr) return true;
  }
  return false;
}

void check_plan(const TransformPlan& plan, uint32_t columns) {
  bool dense = false;
  for (const TransformStep& step : plan.steps) {
    switch (step.kind) {
      case Kind::kNormalizeTotal:
        check_positive("target", step.target);
        break;
      case Kind::kLog1p:
      case Kind::kExpm1:
        check_positive("the logarithm of the base", step.divisor);
        break;
      case Kind::kClip:
        check_clip(step, dense);
        break;
      case Kind::kBinarize:
        if (!(step.low >= 0)) {
          refuse("binarize needs a threshold of 0 or more: " + std::to_string(step.low));
        }
        break;
      case Kind::kScale:
        check_scale(step, columns);
        dense = dense || step.mean != nullptr;
        break;
      case Kind::kColumns:
        check_places(step, columns);
        columns = step.columns;
        break;
    }
    if (dense && (step.kind == Kind::kNormalizeTotal || step.kind == Kind::kColumns)) {
      refuse("totals and columns come before centring, which makes every zero a value");
    }
  }
  if (!plan.tokens) return;
  if (dense) refuse("tokens are ranked before centring, which makes every zero a value");
  check_tokens(*plan.tokens, columns);
}

}  // namespace penstock::kernel
