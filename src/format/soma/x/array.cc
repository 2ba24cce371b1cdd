#include "format/soma/x/array.h"

#include <penstock/error.h>

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/concat.h"
#include "base/threads/cancellation.h"
#include "base/threads/parallel.h"
#include "format/soma/x/schema.h"

namespace penstock::format::soma {
namespace {

using tiledb::ArraySchema;
using tiledb::FragmentMetadata;

}  // namespace

bool XFragment::reads(XPart part) const {
  if (!has(part)) return false;
  return part <= XPart::kValues || general;
}

uint64_t XFragment::stored_bytes(uint64_t tile) const {
  uint64_t bytes = 0;
  for (size_t part = 0; part < kXPartCount; ++part) {
    if (reads(XPart(part))) bytes += range(XPart(part), tile).length;
  }
  return bytes;
}

std::string XFragment::place(uint64_t tile) const {
  return "tile " + std::to_string(tile) + " of fragment " + metadata->location().path;
}

std::shared_ptr<const XArray> XArray::load(const io::StorePtr& store, const std::string& path,
                                           tiledb::TimeRange range, unsigned threads) {
  const auto directory = tiledb::ArrayDirectory::load(store, path, range);
  const auto schemas = directory.load_schemas();
  const auto found = schemas.find(directory.latest_schema_name());
  if (found == schemas.end()) throw NotFound("no schema, in " + path);
  const ArraySchema& schema = *found->second;
  check_matrix_schema(schema, path);
  if (schema.dense()) throw Internal("dense array opened as sparse: " + path);

  auto array = std::make_shared<XArray>();
  array->store_ = store;
  array->range_ = range;
  array->allows_duplicates_ = schema.allows_duplicates;
  const tiledb::Attribute& value = matrix_attribute(schema, path);
  array->value_name_ = value.name;
  array->info_.value_type = value.type;
  array->info_.layout = layout_text(schema);
  array->open_fragments(directory, schemas, schema, threads);
  array->check_file_sizes(threads);
  array->load_tile_lists(threads);
  array->make_units(schema);
  return array;
}

void XArray::open_fragments(const tiledb::ArrayDirectory& directory,
                            const tiledb::ArraySchemas& schemas, const ArraySchema& schema,
                            unsigned threads) {
  const auto locations = directory.fragments(false);
  const auto consolidated = directory.load_consolidated_footers(locations);
  const auto deletes = tiledb::DeleteFilter::load(directory, schema);
  std::vector<XFragment> all(locations.size());
  parallel_for(locations.size(), threads, [&](size_t i) {
    XFragment& fragment = all[i];
    fragment.metadata = FragmentMetadata::load(store_, locations[i], schemas, &consolidated);
    if (fragment.metadata->dense()) {
      throw CorruptData("dense fragment in a sparse array: " + locations[i].path);
    }
    if (fragment.metadata->has_delete_metadata()) fragment.metadata->load_processed_conditions();
    fragment.deletes = deletes.for_fragment(*fragment.metadata);
  });
  for (XFragment& fragment : all) {
    if (fragment.metadata->tile_count() != 0) fragments_.push_back(std::move(fragment));
  }
  const std::string_view names[kXPartCount] = {schema.dimensions[0].name, schema.dimensions[1].name,
                                               value_name_, tiledb::kTimestampsField,
                                               tiledb::kDeleteTimestampsField};
  for (XFragment& fragment : fragments_) {
    const FragmentMetadata& metadata = *fragment.metadata;
    for (size_t part = 0; part < kXPartCount; ++part) {
      fragment.fields[part] =
          part <= 2 ? &metadata.field(names[part]) : metadata.find_field(names[part]);
      if (fragment.has(XPart(part))) {
        fragment.paths[part] =
            metadata.file_path(fragment.field(XPart(part)), tiledb::TilePart::kData);
      }
    }
    const tiledb::FragmentField& value = fragment.field(XPart::kValues);
    if (value.type != info_.value_type || value.cell_val_num != 1 || value.nullable ||
        fragment.field(XPart::kRows).type != DataType::kInt64 ||
        fragment.field(XPart::kColumns).type != DataType::kInt64) {
      throw Unsupported("a fragment has other types than its array: " + value.name + " is " +
                        std::string(name_of(value.type)) + ", the array has " +
                        std::string(name_of(info_.value_type)) +
                        "; write a copy of the array through tiledbsoma, in " +
                        metadata.location().path);
    }
    for (const std::string& name : fragment.deletes.fields()) {
      if (std::find(names, names + 3, name) == names + 3) {
        throw Unsupported(
            "a delete condition over field '" + name + "', which is not one of " +
            std::string(names[0]) + ", " + std::string(names[1]) + " and " + std::string(names[2]) +
            "; write a copy of the array through tiledbsoma, in " + metadata.location().path);
      }
    }
    fragment.first_timestamp = metadata.location().name.time.start;
    fragment.filter_time = metadata.has_timestamps() && metadata.location().partly_in_range;
  }
  choose_general(schema);
}

void XArray::choose_general(const ArraySchema& schema) {
  for (XFragment& fragment : fragments_) {
    fragment.column_major = schema.cell_order != tiledb::Layout::kRowMajor;
    fragment.general = fragment.column_major || fragment.filter_time || !fragment.deletes.empty();
    if (fragment.general || allows_duplicates_ || !fragment.metadata->has_timestamps()) continue;
    // If times interleave, only cells tell which of two duplicates is newer.
    const auto& time = fragment.metadata->location().name.time;
    fragment.general = std::any_of(fragments_.begin(), fragments_.end(), [&](const XFragment& f) {
      return &f != &fragment && f.metadata->location().name.time.overlaps(time);
    });
  }
}

// Tile ranges lie within the file sizes of the footer. This checks that the files are that long, so
// that no read is sized by a footer alone.
void XArray::check_file_sizes(unsigned threads) const {
  parallel_for(fragments_.size(), threads, [&](size_t i) {
    const XFragment& fragment = fragments_[i];
    for (size_t part = 0; part < kXPartCount; ++part) {
      if (!fragment.has(XPart(part))) continue;
      const uint64_t stated =
          fragment.metadata->file_bytes(fragment.field(XPart(part)), tiledb::TilePart::kData);
      const uint64_t found = store_->size_bytes(fragment.paths[part]);
      if (found >= stated) continue;
      throw CorruptData(concat("file is cut short: ", found, " bytes of ", stated, ", in ",
                               fragment.paths[part]));
    }
  });
}

void XArray::load_tile_lists(unsigned threads) {
  struct Job {
    XFragment* fragment;
    int part;  // -1: bounds
  };
  std::vector<Job> jobs;
  for (int part = -1; part < static_cast<int>(kXPartCount); ++part) {
    for (XFragment& fragment : fragments_) {
      if (part < 0 || fragment.has(XPart(part))) jobs.push_back({&fragment, part});
    }
  }
  if (store_->traits().remote) {
    std::vector<io::ObjectRange> ranges;
    for (const Job& job : jobs) {
      const FragmentMetadata& metadata = *job.fragment->metadata;
      if (job.part < 0) {
        metadata.add_bounds_range(ranges);
      } else {
        metadata.add_offset_range(job.fragment->field(XPart(job.part)), tiledb::TilePart::kData,
                                  ranges);
      }
    }
    store_->will_read(ranges);
  }
  parallel_for(jobs.size(), threads, [&](size_t i) {
    XFragment& fragment = *jobs[i].fragment;
    if (jobs[i].part >= 0) {
      fragment.metadata->load_tile_offsets(fragment.field(XPart(jobs[i].part)),
                                           tiledb::TilePart::kData);
      return;
    }
    fragment.metadata->load_tile_bounds();
    const auto boxes = fragment.metadata->tile_bounds().int64_rows();
    if (boxes.size() / 4 != fragment.metadata->tile_count()) {
      throw CorruptData("tile bounds do not match the tiles, in " +
                        fragment.metadata->location().path);
    }
    fragment.tree = XTileTree(boxes);
  });
}

void XArray::make_units(const ArraySchema& schema) {
  info_.row_domain_end = domain_end(schema, 0);
  info_.column_domain_end = domain_end(schema, 1);
  const int64_t row_max = schema.dimensions[0].domain_max();
  const int64_t column_max = schema.dimensions[1].domain_max();
  uint64_t tile_count = 0;
  for (const XFragment& fragment : fragments_) tile_count += fragment.metadata->tile_count();
  std::vector<plan::TileRows> tiles;
  tiles.reserve(tile_count);
  int64_t row_end = 0;
  for (const XFragment& fragment : fragments_) {
    poll_wait_hook();
    const uint64_t count = fragment.metadata->tile_count();
    for (uint64_t tile = 0; tile < count; ++tile) {
      const XTileBounds box = fragment.bounds(tile);
      // Bounds may exceed the domain at the time of reading if the array has grown since. Those
      // cells are not part of it. No cell can be stored beyond the domain of the dimensions.
      if (box.row_first < 0 || box.row_last > row_max || box.column_first < 0 ||
          box.column_last > column_max) {
        throw CorruptData(concat("bounds rows ", box.row_first, " … ", box.row_last, ", columns ",
                                 box.column_first, " … ", box.column_last,
                                 " outside the array's domain 0 … ", row_max, ", 0 … ", column_max,
                                 ", in ", fragment.place(tile)));
      }
      if (box.row_first >= info_.row_domain_end) continue;
      const int64_t row_last = std::min(box.row_last, info_.row_domain_end - 1);
      const uint64_t bytes = fragment.stored_bytes(tile);
      tiles.push_back({box.row_first, row_last, fragment.cells(tile), bytes});
      info_.stored_cells =
          checked_add(info_.stored_cells, fragment.cells(tile), "cells of the array");
      info_.stored_bytes += bytes;
      row_end = std::max(row_end, row_last + 1);
    }
  }
  info_.tile_count = tiles.size();
  info_.fragment_count = static_cast<uint32_t>(fragments_.size());
  if (row_end != 0) units_ = plan::make_fetch_units(tiles, 0, row_end);
  append_empty_units(units_, row_end, info_.row_domain_end);
}

std::vector<XTileId> XArray::tiles_of(int64_t row_begin, int64_t row_end) const {
  std::vector<XTileId> found;
  std::vector<uint64_t> tiles;
  for (uint32_t i = 0; i < fragments_.size(); ++i) {
    tiles.clear();
    fragments_[i].tree.find(row_begin, row_end, tiles);
    for (const uint64_t tile : tiles) found.push_back({i, tile});
  }
  return found;
}

}  // namespace penstock::format::soma
