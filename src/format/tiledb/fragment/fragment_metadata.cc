#include "format/tiledb/fragment/fragment_metadata.h"

#include <penstock/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/byte_reader.h"
#include "base/concat.h"
#include "base/threads/mutex.h"
#include "format/tiledb/generic_tile.h"

namespace penstock::format::tiledb {
namespace {

constexpr size_t kListKinds = 4;
constexpr std::string_view kMetadataFile = "__fragment_metadata.tdb";

std::string_view suffix_of(TilePart part) {
  switch (part) {
    case TilePart::kData:
      return ".tdb";
    case TilePart::kVar:
      return "_var.tdb";
    case TilePart::kValidity:
      return "_validity.tdb";
  }
  return "";
}

std::vector<std::string> parse_conditions(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto count = reader.read<uint64_t>("number of processed conditions");
  reader.expect_items(count, 8, "processed conditions");
  std::vector<std::string> markers;
  markers.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = reader.read<uint64_t>("processed condition length");
    markers.emplace_back(reader.take_string(length, "processed condition"));
  }
  return markers;
}

std::span<const uint64_t> values_of(const Buffer& list) {
  return list.as<const uint64_t>().subspan(1);
}

}  // namespace

// Keeps the inflated generic tile itself: a count, followed by the aligned values.
struct FragmentMetadata::List {
  Mutex mutex;
  std::atomic<bool> loaded = false;
  Buffer bytes PENSTOCK_GUARDED_BY(mutex);

  // Once `loaded` is seen nothing is written: drop_tile_offsets() is called without readers.
  const Buffer& loaded_bytes() const PENSTOCK_NO_THREAD_SAFETY_ANALYSIS { return bytes; }
  std::span<const uint64_t> values() const {
    return loaded_bytes().as<const uint64_t>().subspan(1);
  }
};

struct FragmentMetadata::Lazy {
  Mutex mutex;
  std::atomic<bool> has_bounds = false;
  std::atomic<bool> has_conditions = false;
  TileBounds bounds PENSTOCK_GUARDED_BY(mutex);
  std::vector<std::string> conditions PENSTOCK_GUARDED_BY(mutex);

  // Once has_bounds and has_conditions are seen, nothing is written.
  const TileBounds& loaded_bounds() const PENSTOCK_NO_THREAD_SAFETY_ANALYSIS { return bounds; }
  const std::vector<std::string>& loaded_conditions() const PENSTOCK_NO_THREAD_SAFETY_ANALYSIS {
    return conditions;
  }
};

std::shared_ptr<FragmentMetadata> FragmentMetadata::load(
    io::StorePtr store, const FragmentLocation& location, const ArraySchemas& schemas,
    const ArrayDirectory::ConsolidatedFooters* consolidated) {
  FragmentFooter footer;
  const auto bytes = consolidated != nullptr ? consolidated->find(location.name.name)
                                             : std::optional<std::span<const std::byte>>();
  if (bytes) {
    ByteReader reader(*bytes);
    footer = with_place([&] { return FragmentFooter::parse(reader, schemas); },
                        [&] { return "consolidated fragment metadata of " + location.path; });
  } else {
    footer = read_fragment_footer(*store, io::join(location.path, kMetadataFile), schemas);
  }
  return std::make_shared<FragmentMetadata>(std::move(store), location, std::move(footer));
}

FragmentMetadata::FragmentMetadata(io::StorePtr store, FragmentLocation location,
                                   FragmentFooter footer)
    : store_(std::move(store)),
      location_(std::move(location)),
      footer_(std::move(footer)),
      lists_(std::make_unique<List[]>(footer_.field_count * kListKinds)),
      lazy_(std::make_unique<Lazy>()) {
  make_fields();
}

FragmentMetadata::~FragmentMetadata() = default;

void FragmentMetadata::make_fields() {
  const ArraySchema& schema = *footer_.schema;
  for (size_t i = 0; i < schema.attributes.size(); ++i) {
    const Attribute& attribute = schema.attributes[i];
    fields_.push_back({attribute.name, i, attribute.type, attribute.cell_val_num,
                       attribute.nullable, false, &attribute.filters, "a" + std::to_string(i)});
  }
  size_t index = schema.attributes.size() + 1;  // one place for zipped coordinates, unused
  for (size_t i = 0; i < schema.dimensions.size(); ++i, ++index) {
    if (footer_.dense) continue;
    const Dimension& dimension = schema.dimensions[i];
    fields_.push_back({dimension.name, index, dimension.type, dimension.cell_val_num, false, true,
                       &dimension.filters, "d" + std::to_string(i)});
  }
  const auto add_uint64 = [&](std::string_view name, std::string_view stem) {
    fields_.push_back({std::string(name), index++, DataType::kUInt64, 1, false, false,
                       &schema.coords_filters, std::string(stem)});
  };
  if (footer_.has_timestamps) add_uint64(kTimestampsField, "t");
  if (footer_.has_delete_metadata) {
    add_uint64(kDeleteTimestampsField, "dt");
    add_uint64(kDeleteConditionField, "dci");
  }
}

uint64_t FragmentMetadata::cell_count() const noexcept {
  if (footer_.tile_count == 0) return 0;
  return (footer_.tile_count - 1) * footer_.cells_per_tile + tile_cells(footer_.tile_count - 1);
}

const FragmentField* FragmentMetadata::find_field(std::string_view name) const noexcept {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const FragmentField& f) { return f.name == name; });
  return found == fields_.end() ? nullptr : &*found;
}

const FragmentField& FragmentMetadata::field(std::string_view name) const {
  if (const FragmentField* found = find_field(name)) return *found;
  std::string known;
  for (const FragmentField& candidate : fields_) {
    known += (known.empty() ? "" : ", ") + candidate.name;
  }
  throw NotFound("no field \"" + std::string(name) + "\"; choose from " + known + ", in " +
                 location_.path);
}

std::string FragmentMetadata::metadata_path() const {
  return io::join(location_.path, kMetadataFile);
}

std::string FragmentMetadata::file_path(const FragmentField& field, TilePart part) const {
  return io::join(location_.path, field.file_stem + std::string(suffix_of(part)));
}

uint64_t FragmentMetadata::file_bytes(const FragmentField& field, TilePart part) const noexcept {
  switch (part) {
    case TilePart::kData:
      return footer_.file_bytes[field.index];
    case TilePart::kVar:
      return footer_.file_var_bytes[field.index];
    case TilePart::kValidity:
      return footer_.file_validity_bytes[field.index];
  }
  return 0;
}

FragmentMetadata::List& FragmentMetadata::list(size_t field, ListKind kind) const {
  return lists_[field * kListKinds + static_cast<size_t>(kind)];
}

void FragmentMetadata::load_list(size_t field, ListKind kind) {
  List& target = list(field, kind);
  if (target.loaded.load(std::memory_order_acquire)) return;
  const MutexLock lock(target.mutex);
  if (target.loaded.load(std::memory_order_relaxed)) return;

  const std::vector<uint64_t>* const offsets[kListKinds] = {
      &footer_.tile_offsets_offset, &footer_.tile_var_offsets_offset,
      &footer_.tile_validity_offsets_offset, &footer_.tile_var_sizes_offset};
  const std::vector<uint64_t>* const sizes[kListKinds] = {
      &footer_.file_bytes, &footer_.file_var_bytes, &footer_.file_validity_bytes, nullptr};
  const auto which = static_cast<size_t>(kind);

  GenericTile tile =
      read_generic_tile(*store_, metadata_path(), (*offsets[which])[field], kBelievedListBytes);
  const auto check = [&] {
    ByteReader reader(tile.bytes.span());
    const auto count = reader.read<uint64_t>("number of tile offsets");
    reader.expect_items(count, 8, "tile offsets");
    if (count != footer_.tile_count || reader.remaining() != count * 8) {
      throw CorruptData(concat("list of ", count, " tile offsets in ", reader.remaining(),
                               " bytes for ", footer_.tile_count, " tiles"));
    }
    if (sizes[which] == nullptr) return;
    uint64_t previous = 0;
    for (const uint64_t offset : values_of(tile.bytes)) {
      if (offset < previous) {
        throw CorruptData(concat("tile offset ", offset, " follows ", previous));
      }
      previous = offset;
    }
    if (previous > (*sizes[which])[field]) {
      throw CorruptData(
          concat("tile offset ", previous, " is behind the file's end ", (*sizes[which])[field]));
    }
  };
  with_place(check, [&] {
    return "list " + std::to_string(which) + " of field " + std::to_string(field) + " of " +
           metadata_path();
  });
  target.bytes = std::move(tile.bytes);
  target.loaded.store(true, std::memory_order_release);
}

void FragmentMetadata::load_tile_offsets(const FragmentField& field) {
  load_tile_offsets(field, TilePart::kData);
  if (field.var_length()) load_tile_offsets(field, TilePart::kVar);
  if (field.nullable) load_tile_offsets(field, TilePart::kValidity);
}

void FragmentMetadata::load_tile_offsets(const FragmentField& field, TilePart part) {
  load_list(field.index, static_cast<ListKind>(part));
}

void FragmentMetadata::load_var_tile_sizes(const FragmentField& field) {
  load_list(field.index, ListKind::kVarSizes);
}

// A generic tile's length is in its header; the next tile in the file bounds it from outside.
// Returns at least the range that read_generic_tile reads first.
io::ObjectRange FragmentMetadata::tile_at(uint64_t offset) const {
  uint64_t end = UINT64_MAX;
  const auto consider = [&](uint64_t other) {
    if (other > offset) end = std::min(end, other);
  };
  consider(footer_.rtree_offset);
  for (const auto* list : {&footer_.tile_offsets_offset, &footer_.tile_var_offsets_offset,
                           &footer_.tile_var_sizes_offset, &footer_.tile_validity_offsets_offset,
                           &footer_.unused_offsets}) {
    for (const uint64_t other : *list) consider(other);
  }
  consider(footer_.processed_conditions_offset);
  consider(store_->size_bytes(metadata_path()));
  if (end == UINT64_MAX) end = offset;
  return {metadata_path(), {offset, std::max(end - offset, kGenericTileFirstRead)}};
}

void FragmentMetadata::add_list_range(size_t field, ListKind kind,
                                      std::vector<io::ObjectRange>& ranges) const {
  if (list(field, kind).loaded.load(std::memory_order_acquire)) return;
  const std::vector<uint64_t>* const offsets[kListKinds] = {
      &footer_.tile_offsets_offset, &footer_.tile_var_offsets_offset,
      &footer_.tile_validity_offsets_offset, &footer_.tile_var_sizes_offset};
  ranges.push_back(tile_at((*offsets[static_cast<size_t>(kind)])[field]));
}

void FragmentMetadata::add_offset_range(const FragmentField& field, TilePart part,
                                        std::vector<io::ObjectRange>& ranges) const {
  add_list_range(field.index, static_cast<ListKind>(part), ranges);
}

void FragmentMetadata::add_offset_ranges(const FragmentField& field,
                                         std::vector<io::ObjectRange>& ranges) const {
  add_list_range(field.index, ListKind::kData, ranges);
  if (field.nullable) add_list_range(field.index, ListKind::kValidity, ranges);
  if (!field.var_length()) return;
  add_list_range(field.index, ListKind::kVar, ranges);
  add_list_range(field.index, ListKind::kVarSizes, ranges);
}

void FragmentMetadata::add_bounds_range(std::vector<io::ObjectRange>& ranges) const {
  if (lazy_->has_bounds.load(std::memory_order_acquire)) return;
  ranges.push_back(tile_at(footer_.rtree_offset));
}

void FragmentMetadata::load_tile_bounds() {
  if (lazy_->has_bounds.load(std::memory_order_acquire)) return;
  const MutexLock lock(lazy_->mutex);
  if (lazy_->has_bounds.load(std::memory_order_relaxed)) return;
  if (footer_.dense) throw Internal("a dense fragment has no tile bounds: " + location_.path);
  GenericTile tile =
      read_generic_tile(*store_, metadata_path(), footer_.rtree_offset, kBelievedListBytes);
  lazy_->bounds = with_place(
      [&] {
        return TileBounds::parse(std::move(tile.bytes), footer_.schema->dimensions,
                                 footer_.tile_count);
      },
      [&] { return "R-tree of " + metadata_path(); });
  lazy_->has_bounds.store(true, std::memory_order_release);
}

void FragmentMetadata::load_processed_conditions() {
  if (lazy_->has_conditions.load(std::memory_order_acquire)) return;
  const MutexLock lock(lazy_->mutex);
  if (lazy_->has_conditions.load(std::memory_order_relaxed)) return;
  if (footer_.processed_conditions_offset != 0) {
    const GenericTile tile =
        read_generic_tile(*store_, metadata_path(), footer_.processed_conditions_offset);
    lazy_->conditions = with_place([&] { return parse_conditions(tile.bytes.span()); },
                                   [&] { return "processed conditions of " + metadata_path(); });
  }
  lazy_->has_conditions.store(true, std::memory_order_release);
}

const TileBounds& FragmentMetadata::tile_bounds() const {
  if (!lazy_->has_bounds.load(std::memory_order_acquire)) {
    throw Internal("tile bounds are not loaded: " + location_.path);
  }
  return lazy_->loaded_bounds();
}

const std::vector<std::string>& FragmentMetadata::processed_conditions() const {
  if (!lazy_->has_conditions.load(std::memory_order_acquire)) {
    throw Internal("processed conditions are not loaded: " + location_.path);
  }
  return lazy_->loaded_conditions();
}

bool FragmentMetadata::has_tile_offsets(const FragmentField& field, TilePart part) const noexcept {
  return list(field.index, static_cast<ListKind>(part)).loaded.load(std::memory_order_acquire);
}

std::span<const uint64_t> FragmentMetadata::tile_offsets(const FragmentField& field,
                                                         TilePart part) const {
  if (!has_tile_offsets(field, part)) {
    throw Internal("tile offsets of " + field.name + " are not loaded: " + location_.path);
  }
  return list(field.index, static_cast<ListKind>(part)).values();
}

io::ByteRange FragmentMetadata::tile_range(const FragmentField& field, TilePart part,
                                           uint64_t tile) const {
  const auto offsets = tile_offsets(field, part);
  const uint64_t end = tile + 1 < offsets.size() ? offsets[tile + 1] : file_bytes(field, part);
  return {offsets[tile], end - offsets[tile]};
}

uint64_t FragmentMetadata::var_tile_bytes(const FragmentField& field, uint64_t tile) const {
  const List& sizes = list(field.index, ListKind::kVarSizes);
  if (!sizes.loaded.load(std::memory_order_acquire)) {
    throw Internal("tile sizes of " + field.name + " are not loaded: " + location_.path);
  }
  return sizes.values()[tile];
}

void FragmentMetadata::drop_tile_offsets(const FragmentField& field) {
  for (size_t kind = 0; kind < kListKinds; ++kind) {
    List& dropped = list(field.index, static_cast<ListKind>(kind));
    const MutexLock lock(dropped.mutex);
    dropped.loaded.store(false, std::memory_order_release);
    dropped.bytes = Buffer();
  }
}

size_t FragmentMetadata::memory_bytes() const noexcept {
  size_t total = lazy_->has_bounds ? lazy_->loaded_bounds().memory_bytes() : 0;
  for (size_t i = 0; i < footer_.field_count * kListKinds; ++i) {
    if (lists_[i].loaded.load(std::memory_order_acquire))
      total += lists_[i].loaded_bytes().capacity();
  }
  return total;
}

}  // namespace penstock::format::tiledb
