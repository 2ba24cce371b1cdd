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

/// One of the parts that a pack is made in, by several processes.
struct PackPart {
  uint64_t number = 0;  ///< from 0
  uint64_t count = 1;
  /// A Packer of the same content has begun (Packer::begin) and finishes when the parts are done.
  /// Else the part makes the folder, and a Packer without `part` finishes later.
  bool joins = false;
};

struct PackOptions {
  std::optional<RowSelection> rows;       ///< cells to pack; absent: all
  std::vector<std::string> measurements;  ///< empty: all
  std::vector<std::string> layers;        ///< in each measurement that has them; empty: all
  bool overwrite = false;                 ///< replace an existing pack
  unsigned threads = 0;                   ///< 0: as many as cores
  /// For decoded chunks. Of layers that are stored by columns (CSC), a pass over the layer packs as
  /// many rows as fit. Deflated chunks that do not fit are decoded piece by piece.
  uint64_t memory_budget = uint64_t{2} << 30;
  uint64_t rows_per_file = uint64_t{1} << 18;
  /// Write only the row files of this part; the pack is not finished. The files of all layers are
  /// dealt out in order, the same number to each part or one more.
  std::optional<PackPart> part;
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
/// (docs/reference/pack-format.md). Experiment::open opens a pack like any experiment.
///
///   Packer packer(experiment, "atlas.pack");
///   while (packer.advance(0.1)) show(packer.progress());
///
/// The pack appears at `destination` when it is complete. Until then it is built in
/// destination + ".partial". However a Packer ends, the next one of the same content resumes there.
/// Use from one thread; it reads and writes with several.
///
/// Several processes may make one pack, each with PackOptions::part, on a folder that all reach:
/// the bytes are the same whatever the parts. A Packer without `part` then keeps their files, packs
/// what is missing and finishes.
class Packer {
 public:
  /// Throws InvalidArgument if `destination` is something else than a pack, if it is a pack of
  /// other content and `overwrite` is false, if there is nothing to pack, or while another process
  /// packs there. Throws NotFound for unknown measurements and layers. With `part` throws
  /// InvalidArgument also if a pack of other content was begun there, and Unsupported if nothing
  /// tells whether the source is the same for each part.
  Packer(const Experiment& source, std::string destination, PackOptions options = {});
  ~Packer();
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  /// Copies obs and var, and makes all folders, for parts that join; a part makes the folders.
  /// advance() does it otherwise. Row files that are put there then are kept, if they are of this
  /// pack.
  void begin();

  /// SHA-256 of all that is packed, hexadecimal: `key` of pack.json.
  const std::string& key() const;

  /// Row files of the pack, or of the part, by path below the pack, in order. More parts than the
  /// pack has files would have nothing to do.
  std::vector<std::string> files() const;

  /// Whether a layer is stored by columns (CSC), so that each part reads it as a whole.
  bool stored_by_columns() const;

  /// Packs for about this long; false when the pack, or the part, is complete. Throws
  /// ResourceExhausted if the disk is full, or if `memory_budget` is too small, with the least that
  /// works; rows packed so far are kept.
  bool advance(double seconds);

  PackProgress progress() const;

  /// Ends packing, and lets others pack there. The destructor does it otherwise.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
