#pragma once

#include <penstock/experiment.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

struct PackOptions {
  std::optional<RowSelection> rows;       ///< cells to pack; absent: all
  std::vector<std::string> measurements;  ///< empty: all
  std::vector<std::string> layers;        ///< in each measurement that has them; empty: all
  bool overwrite = false;                 ///< replace an existing pack
  unsigned threads = 0;                   ///< 0: as many as cores
  /// For layers that are stored by columns (CSC): a pass over the layer packs as many rows as fit.
  uint64_t memory_budget = uint64_t{2} << 30;
  uint64_t rows_per_file = uint64_t{1} << 18;
};

struct PackProgress {
  uint64_t rows_done = 0;   ///< rows packed in all layers, rows_kept included
  uint64_t rows_total = 0;  ///< cells times layers
  uint64_t rows_kept = 0;   ///< rows that an earlier attempt had packed
  uint64_t bytes_written = 0;
  std::string layer;  ///< the layer being packed: "RNA/X/raw"
  /// Passes over each layer that is stored by columns, of those whose non-zeros are counted.
  std::map<std::string, uint32_t> passes{};
  uint32_t pass = 0;      ///< pass over the current layer, from 1; the first counts its non-zeros
  double pass_share = 0;  ///< part of the pass that is done, from 0 to 1
};

/// Copies an experiment into a pack, Penstock's own store, whose rows can be read one by one
/// (docs/pack-format.md). Experiment::open opens a pack like any experiment.
///
///   Packer packer(experiment, "atlas.pack");
///   while (packer.advance(0.1)) show(packer.progress());
///
/// The pack appears at `destination` when it is complete. Until then it is built in
/// destination + ".partial". However a Packer ends, the next one of the same content resumes there.
/// Use from one thread; it reads and writes with several.
class Packer {
 public:
  /// Throws InvalidArgument if `destination` is something else than a pack, if it is a pack of
  /// other content and `overwrite` is false, if there is nothing to pack, or while another process
  /// packs there. Throws NotFound for unknown measurements and layers.
  Packer(const Experiment& source, std::string destination, PackOptions options = {});
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  /// Packs for about this long; false when the pack is complete. Throws ResourceExhausted if the
  /// disk is full, or if `memory_budget` is too small, with the least that works; rows packed so
  /// far are kept.
  bool advance(double seconds);

  PackProgress progress() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
