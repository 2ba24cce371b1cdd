#include <penstock/error.h>
#include <penstock/resume.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "base/concat.h"
#include "plan/resume/check_order.h"

namespace penstock {
namespace plan {

void damaged(const std::string& reason) {
  throw InvalidArgument("the state is damaged: " + reason);
}

void check_order(const OrderSettings& order) {
  if (order.min_batch > order.batch_size) {
    damaged(concat("min_batch ", order.min_batch, " is more than batch_size ", order.batch_size));
  }
  const bool is_chunks = order.chunk_size != 0;
  const int kinds = int{is_chunks} + int{order.global_shuffle};
  if (is_chunks != (order.chunks_per_block != 0) || kinds > int{order.shuffle}) {
    const auto text_of = [](bool flag) { return flag ? "true" : "false"; };
    damaged(concat("no shuffle has shuffle=", text_of(order.shuffle), ", global_shuffle=",
                   text_of(order.global_shuffle), ", chunk_size=", order.chunk_size,
                   ", chunks_per_block=", order.chunks_per_block));
  }
  if (order.memory_budget == 0 && !order.global_shuffle) damaged("memory_budget is 0");
}

}  // namespace plan

OrderSettings OrderSettings::of(const LoaderOptions& options) {
  OrderSettings order;
  order.world_size = options.world_size;
  order.num_workers = options.num_workers;
  order.batch_size = options.batch_size;
  order.shuffle = !std::holds_alternative<StoredOrder>(options.order);
  order.seed = options.seed;
  order.global_shuffle = std::holds_alternative<GlobalShuffle>(options.order);
  // JSON readers may have no more than 63 bits, and "no limit" may be written as all 64.
  constexpr uint64_t kMostBudget = INT64_MAX;
  if (!order.global_shuffle) {
    order.memory_budget = std::min(options.memory_budget, kMostBudget);
    order.kept_memory = std::min(options.kept_memory, kMostBudget);
  }
  order.sparse = options.layout == BatchLayout::kCsr;
  order.dtype = options.dtype;
  order.drop_last = options.drop_last;
  order.min_batch = options.min_batch;
  order.uneven = options.uneven;
  if (const auto* drawn = std::get_if<RowSampling>(&options.order)) {
    order.sampling = drawn->fingerprint();
  }
  if (const auto* chunks = std::get_if<ChunkShuffle>(&options.order)) {
    order.chunk_size = chunks->chunk_rows;
    order.chunks_per_block = chunks->chunks_per_block;
  }
  return order;
}

LoaderOptions OrderSettings::apply_to(LoaderOptions now) const {
  plan::check_order(*this);
  now.world_size = world_size;
  now.num_workers = num_workers;
  now.batch_size = batch_size;
  now.seed = seed;
  if (!global_shuffle) {
    now.memory_budget = memory_budget;
    now.kept_memory = kept_memory;
  }
  now.layout = sparse ? BatchLayout::kCsr : BatchLayout::kDense;
  now.dtype = dtype;
  now.drop_last = drop_last;
  now.min_batch = min_batch;
  now.uneven = uneven;
  if (std::holds_alternative<RowSampling>(now.order)) return now;
  if (!shuffle) {
    now.order = StoredOrder{};
  } else if (global_shuffle) {
    now.order = GlobalShuffle{};
  } else if (chunk_size != 0) {
    now.order = ChunkShuffle{chunk_size, chunks_per_block};
  } else {
    now.order = ScatterShuffle{};
  }
  return now;
}

bool OrderSettings::same_for_ranks(const OrderSettings& other) const {
  OrderSettings alike = *this;
  alike.memory_budget = other.memory_budget;
  alike.kept_memory = other.kept_memory;
  alike.num_workers = other.num_workers;
  alike.sparse = other.sparse;
  alike.dtype = other.dtype;
  return alike == other;
}

}  // namespace penstock
