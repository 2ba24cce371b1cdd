#include "plan/order/chunk_visits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/cut/rank_cut.h"
#include "plan/memory/densest_rows.h"
#include "plan/random.h"

namespace penstock::plan {
namespace {

/// Rows [begin, begin + count) of the selection.
struct Piece {
  uint64_t begin;
  uint64_t count;
};

uint64_t row_count(std::span<const UnitRows> units) {
  return std::accumulate(units.begin(), units.end(), uint64_t{0},
                         [](uint64_t sum, const UnitRows& unit) { return sum + unit.row_count; });
}

std::vector<uint64_t> shuffled_chunks(uint64_t chunks, const EpochOptions& options) {
  std::vector<uint64_t> order(chunks);
  std::iota(order.begin(), order.end(), uint64_t{0});
  RandomStream random(random_key(options.seed, options.epoch, Purpose::kUnitOrder));
  for (uint64_t i = chunks; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// Returns the share's part of each chunk, in the order of the epoch.
std::vector<Piece> pieces_of(uint64_t rows, const Share& share, const EpochOptions& options) {
  const uint64_t size = options.chunk_rows;
  std::vector<Piece> pieces;
  uint64_t stream = 0;
  for (const uint64_t chunk : shuffled_chunks((rows + size - 1) / size, options)) {
    if (stream >= share.end) break;
    const uint64_t first = chunk * size;
    const uint64_t next = stream + std::min(size, rows - first);
    const uint64_t begin = std::max(stream, share.begin), end = std::min(next, share.end);
    if (begin < end) pieces.push_back({first + begin - stream, end - begin});
    stream = next;
  }
  return pieces;
}

class Visits {
 public:
  explicit Visits(std::span<const UnitRows> units) : units_(units) {}

  void add_block(std::span<Piece> pieces) {
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    for (const Piece& piece : pieces) add(piece);
    result_.block_begin.push_back(result_.visits.size());
  }

  ChunkVisits take() { return std::move(result_); }
  std::vector<Visit>& visits() noexcept { return result_.visits; }

 private:
  void add(Piece piece) {
    while (piece.count != 0) {
      const auto unit = std::prev(std::upper_bound(
          units_.begin(), units_.end(), piece.begin,
          [](uint64_t position, const UnitRows& each) { return position < each.first_position; }));
      const uint64_t begin = piece.begin - unit->first_position;
      const uint64_t count = std::min(piece.count, unit->row_count - begin);
      append(*unit, {static_cast<uint32_t>(begin), static_cast<uint32_t>(count)});
      piece.begin += count;
      piece.count -= count;
    }
  }

  void append(const UnitRows& unit, RowRange range) {
    auto& visits = result_.visits;
    if (visits.size() == result_.block_begin.back() || visits.back().unit != unit.unit) {
      Visit visit;
      visit.unit = unit.unit;
      visit.first_position = unit.first_position;
      visit.selected_rows = unit.row_count;
      visits.push_back(visit);
      result_.range_begin.push_back(result_.ranges.size());
    }
    result_.ranges.push_back(range);
    ++result_.range_begin.back();
    Visit& visit = visits.back();
    visit.unit_rows += range.count;
    visit.part_end = visit.unit_rows;
    visit.packed_bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(unit.packed_bytes) *
                                               visit.unit_rows / unit.row_count);
  }

  std::span<const UnitRows> units_;
  ChunkVisits result_;
};

}  // namespace

ChunkVisits chunk_visits(std::span<const UnitRows> units, const EpochOptions& options) {
  const uint64_t rows = row_count(units);
  const Shard& shard = options.shard;
  const Share share = share_of(rows, options, shard.rank, shard.worker);
  RandomStream random(hash_combine(random_key(options.seed, options.epoch, Purpose::kPadding),
                                   uint64_t{shard.rank} * shard.num_workers + shard.worker));
  auto pieces = pieces_of(rows, share, options);
  const bool is_empty = pieces.empty();
  if (is_empty && share.repeats_row) pieces.push_back({random.below(rows), 1});
  Visits visits(units);
  for (size_t begin = 0; begin < pieces.size(); begin += options.chunks_per_block) {
    const size_t count = std::min<size_t>(options.chunks_per_block, pieces.size() - begin);
    visits.add_block(std::span(pieces).subspan(begin, count));
  }
  if (share.repeats_row && !pieces.empty()) {
    // Repeats one of a visit's rows.
    auto& all = visits.visits();
    Visit& visit = all[random.below(all.size())];
    visit.repeated_row = static_cast<uint32_t>(random.below(visit.unit_rows));
    if (!is_empty) ++visit.part_end;
    visit.repeats_row = true;
  }
  return visits.take();
}

// The block that leaves, the next one, and the visits ahead, with the densest rows.
uint64_t least_chunk_bytes(std::span<const UnitRows> units, const EpochOptions& options,
                           uint32_t units_ahead, uint64_t page_bytes) {
  uint64_t largest = 0;
  for (const UnitRows& unit : units) largest = std::max<uint64_t>(largest, unit.row_count);
  const uint64_t rows = row_count(units) + 1;
  const uint64_t block =
      std::min(rows, uint64_t{options.chunk_rows} * options.chunks_per_block) + 1;
  const uint64_t ahead = std::min(block, largest) * (uint64_t{units_ahead} + 1);
  // A batch that starts at the end of a block keeps the block until the batch's last block is read.
  const uint64_t batch = most_batch_rows(options) + 1;
  const uint64_t most = std::min(rows, 2 * block + (batch > block ? batch + block : 0) + ahead);
  // Blocks may be as small as a visit, and a visit as a row.
  const uint64_t open =
      std::min<uint64_t>(most / std::max<uint64_t>(block - 1, 1) + 3 + units_ahead, rows);
  return static_cast<uint64_t>(
             std::ceil(static_cast<double>(most) * densest_row_bytes(units, most))) +
         open * page_bytes;
}

}  // namespace penstock::plan
