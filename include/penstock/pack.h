#pragma once

#include <penstock/experiment.h>
#include <penstock/row_selection.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace penstock {

struct PackOptions {
  std::optional<RowSelection> rows;       ///< cells that are packed; all when absent
  std::vector<std::string> measurements;  ///< empty: all
  std::vector<std::string> layers;        ///< of each measurement, those that it has; empty: all
  bool overwrite = false;                 ///< replace the pack that is there
  unsigned threads = 0;                   ///< 0: as many as cores
  uint64_t rows_per_file = uint64_t{1} << 18;
};

struct PackProgress {
  uint64_t rows_done = 0;   ///< of all layers, those that were there already included
  uint64_t rows_total = 0;  ///< cells times layers
  uint64_t rows_kept = 0;   ///< that an attempt before had packed
  uint64_t bytes_written = 0;
  std::string layer;  ///< that is being packed: "RNA/X/raw"
};

/// Packs an experiment: Penstock's own store, whose rows can be read one by one
/// (docs/pack-format.md). Experiment::open opens the result like any other.
///
///   Packer packer(experiment, "atlas.pack");
///   while (packer.advance(0.1)) show(packer.progress());
///
/// The pack appears at `destination` when it is whole. Until then it is built in
/// destination + ".partial", where the next Packer of the same content goes on, however this one
/// ended. For one thread; reads and writes with several.
class Packer {
 public:
  /// Throws InvalidArgument when there is something at `destination` that is no pack, or one of
  /// other content (and not `overwrite`), when there is nothing to pack, or while another process
  /// packs there; NotFound for unknown measurements and layers.
  Packer(const Experiment& source, std::string destination, PackOptions options = {});
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  /// Works on for about this long; false when the pack is there. ResourceExhausted when the disk is
  /// full: what is packed stays.
  bool advance(double seconds);

  PackProgress progress() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
