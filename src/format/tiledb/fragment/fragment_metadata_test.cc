#include "format/tiledb/fragment/fragment_metadata.h"

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <cstring>
#include <thread>
#include <utility>

#include "base/byte_reader.h"
#include "base/testing/test_data.h"
#include "format/tiledb/generic_tile.h"
#include "io/memory_store.h"

namespace penstock::format::tiledb {
namespace {

struct OpenArray {
  ArrayDirectory directory;
  ArraySchemas schemas;
  std::vector<std::shared_ptr<FragmentMetadata>> fragments;

  explicit OpenArray(const std::string& name, TimeRange range = {})
      : directory(
            ArrayDirectory::load(io::file_store(), test_data("tiledb_golden/" + name), range)),
        schemas(directory.load_schemas()) {
    const bool dense = schemas.find(directory.latest_schema_name())->second->dense();
    for (const FragmentLocation& location : directory.fragments(dense)) {
      fragments.push_back(FragmentMetadata::load(directory.store(), location, schemas));
    }
  }
};

constexpr const char* kArrays[] = {"types",
                                   "strings",
                                   "hilbert",
                                   "dense",
                                   "consolidated",
                                   "vacuumed",
                                   "deletes",
                                   "enumerated",
                                   "evolved",
                                   "current_domain/sparse",
                                   "labelled",
                                   "current_domain/dense",
                                   "format18/array",
                                   "format18/dense",
                                   "deleted_fragments"};

uint64_t stored_tile_bytes(const FragmentMetadata& fragment, const FragmentField& field,
                           TilePart part, uint64_t tile, const codec::FilterPipeline& filters) {
  const io::ByteRange range = fragment.tile_range(field, part, tile);
  Buffer stored(range.length);
  io::file_store()->read(fragment.file_path(field, part), range.offset, stored.span());
  return filters.decoded_bytes(stored.span());
}

void check_field(FragmentMetadata& fragment, const FragmentField& field) {
  const ArraySchema& schema = fragment.schema();
  fragment.load_tile_offsets(field);
  const bool offsets_inside = field.filters->stores_string_offsets(field.type, field.var_length());
  for (const TilePart part : {TilePart::kData, TilePart::kVar, TilePart::kValidity}) {
    if (!fragment.has_tile_offsets(field, part)) continue;
    EXPECT_EQ(fragment.file_bytes(field, part),
              io::file_store()->size_bytes(fragment.file_path(field, part)));
  }
  if (field.var_length()) fragment.load_var_tile_sizes(field);
  for (uint64_t tile = 0; tile < fragment.tile_count(); ++tile) {
    const uint64_t cells = fragment.tile_cells(tile);
    if (!field.var_length()) {
      EXPECT_EQ(stored_tile_bytes(fragment, field, TilePart::kData, tile, *field.filters),
                cells * field.cell_bytes());
    } else if (!offsets_inside) {
      EXPECT_EQ(stored_tile_bytes(fragment, field, TilePart::kData, tile, schema.offsets_filters),
                cells * field.cell_bytes());
    }
    if (field.var_length()) {
      EXPECT_EQ(stored_tile_bytes(fragment, field, TilePart::kVar, tile, *field.filters),
                fragment.var_tile_bytes(field, tile));
    }
    if (field.nullable) {
      EXPECT_EQ(
          stored_tile_bytes(fragment, field, TilePart::kValidity, tile, schema.validity_filters),
          cells);
    }
  }
}

// The lists lead to every tile: each range holds one whole tile of as many cells as the footer
// says.
TEST(FragmentMetadata, EveryTileIsWhereTheListsSay) {
  for (const char* name : kArrays) {
    SCOPED_TRACE(name);
    OpenArray array(name);
    for (const auto& fragment : array.fragments) {
      for (const FragmentField& field : fragment->fields()) {
        SCOPED_TRACE(fragment->location().path + " " + field.name);
        check_field(*fragment, field);
      }
    }
  }
}

TEST(FragmentMetadata, FieldsAndFiles) {
  OpenArray array("deletes");
  ASSERT_EQ(array.fragments.size(), 1u);
  FragmentMetadata& fragment = *array.fragments[0];
  std::string names;
  for (const FragmentField& field : fragment.fields())
    names += field.name + "=" + field.file_stem + " ";
  EXPECT_EQ(names,
            "value=a0 kind=a1 maybe=a2 row=d0 column=d1 __timestamps=t __delete_timestamps=dt "
            "__delete_condition_index=dci ");
  const FragmentField& kind = fragment.field("kind");
  EXPECT_EQ(io::base_name(fragment.file_path(kind, TilePart::kVar)), "a1_var.tdb");
  EXPECT_EQ(io::base_name(fragment.file_path(fragment.field("maybe"), TilePart::kValidity)),
            "a2_validity.tdb");
  EXPECT_EQ(fragment.find_field("absent"), nullptr);
  try {
    fragment.field("absent");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_NE(std::string(error.what()).find("value, kind, maybe"), std::string::npos);
  }
}

TEST(FragmentMetadata, NothingIsThereBeforeItIsLoaded) {
  OpenArray array("deletes");
  FragmentMetadata& fragment = *array.fragments[0];
  const FragmentField& value = fragment.field("value");
  EXPECT_THROW(fragment.tile_bounds(), Internal);
  EXPECT_THROW(fragment.tile_range(value, TilePart::kData, 0), Internal);
  EXPECT_THROW(fragment.processed_conditions(), Internal);
  EXPECT_EQ(fragment.memory_bytes(), 0u);
  fragment.load_tile_bounds();
  fragment.load_tile_offsets(value);
  EXPECT_EQ(fragment.memory_bytes(),
            fragment.tile_bounds().memory_bytes() + 8 + fragment.tile_count() * 8);
  fragment.drop_tile_offsets(value);
  EXPECT_THROW(fragment.tile_offsets(value, TilePart::kData), Internal);
}

TEST(FragmentMetadata, LoadsInParallel) {
  for (int round = 0; round < 20; ++round) {
    OpenArray array("types");
    FragmentMetadata& fragment = *array.fragments[0];
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&fragment] {
        fragment.load_tile_bounds();
        fragment.load_processed_conditions();
        for (const FragmentField& field : fragment.fields()) fragment.load_tile_offsets(field);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const FragmentField& field : fragment.fields()) {
      EXPECT_EQ(fragment.tile_offsets(field, TilePart::kData).size(), fragment.tile_count());
    }
  }
}

TEST(FragmentMetadata, Int64BoundsLieInOneArray) {
  OpenArray array("vacuumed");
  array.fragments[0]->load_tile_bounds();
  const TileBounds& bounds = array.fragments[0]->tile_bounds();
  ASSERT_TRUE(bounds.all_int64());
  const auto rows = bounds.int64_rows();
  ASSERT_EQ(rows.size(), bounds.tile_count() * 4);
  EXPECT_GE(bounds.memory_bytes(), bounds.tile_count() * 32);
  EXPECT_LE(bounds.memory_bytes(), bounds.tile_count() * 36 + 256);  // the levels above
  EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.data()) % alignof(int64_t), 0U);
  for (uint64_t tile = 0; tile < bounds.tile_count(); ++tile) {
    for (size_t d = 0; d < 2; ++d) {
      EXPECT_EQ(rows[tile * 4 + 2 * d], bounds.min_int(tile, d));
      EXPECT_EQ(rows[tile * 4 + 2 * d + 1], bounds.max_int(tile, d));
    }
  }
}

// Seven sorted words in tiles of three; a second fragment of two.
TEST(FragmentMetadata, StringBounds) {
  OpenArray array("strings");
  ASSERT_EQ(array.fragments.size(), 2u);
  array.fragments[0]->load_tile_bounds();
  const TileBounds& bounds = array.fragments[0]->tile_bounds();
  EXPECT_FALSE(bounds.all_int64());
  ASSERT_EQ(bounds.tile_count(), 3u);
  EXPECT_EQ(bounds.min_string(0, 0), "ant");
  EXPECT_EQ(bounds.max_string(0, 0), "cat");
  EXPECT_EQ(bounds.min_string(1, 0), "dog");
  EXPECT_EQ(bounds.max_string(1, 0), "fox");
  EXPECT_EQ(bounds.min_string(2, 0), "gnu");
  EXPECT_EQ(bounds.max_string(2, 0), "gnu");
  EXPECT_EQ(bounds.min_int(1, 1), 3);
  EXPECT_EQ(bounds.max<uint32_t>(1, 1), 5u);
  EXPECT_EQ(array.fragments[1]->footer().non_empty_domain[0].min_string(), "fox");
  EXPECT_EQ(array.fragments[1]->footer().non_empty_domain[0].max_string(), "gnu");
}

// Enough tiles for an R-tree of three levels (fanout 10) and more than one chunk: made here, not
// stored.
TEST(TileBounds, DeepTree) {
  std::vector<Dimension> dimensions(2);
  constexpr uint64_t kTiles = 12345;
  std::string bytes;
  const auto put = [&bytes](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(uint32_t{10});
  put(uint32_t{3});
  for (const uint64_t count : {uint64_t{124}, uint64_t{1235}, kTiles}) {
    put(count);
    for (uint64_t i = 0; i < count; ++i) {
      for (const int64_t value : {int64_t(i), int64_t(i) + 5, -int64_t(i), int64_t{7}}) put(value);
    }
  }
  const auto parse = [&](const std::string& from, uint64_t tiles) {
    Buffer tree(from.size());
    std::memcpy(tree.data(), from.data(), from.size());
    return TileBounds::parse(std::move(tree), dimensions, tiles);
  };
  const TileBounds bounds = parse(bytes, kTiles);
  EXPECT_EQ(bounds.min_int(kTiles - 1, 0), int64_t(kTiles) - 1);
  EXPECT_EQ(bounds.min_int(kTiles - 1, 1), 1 - int64_t(kTiles));
  EXPECT_THROW(parse(bytes, kTiles - 1), CorruptData);
  EXPECT_THROW(parse(bytes + "x", kTiles), CorruptData);
  EXPECT_THROW(parse(bytes.substr(0, bytes.size() - 1), kTiles), CorruptData);
  std::string reversed = bytes;  // the last tile's first minimum
  reversed[reversed.size() - 32 + 7] = 0x70;
  EXPECT_THROW(parse(reversed, kTiles), CorruptData);
  EXPECT_EQ(parse(std::string(8, '\0'), 0).tile_count(), 0u);
}

std::string footer_bytes(const FragmentMetadata& fragment) {
  const Buffer file =
      io::file_store()->read_all(io::join(fragment.location().path, "__fragment_metadata.tdb"));
  uint64_t length = 0;
  std::memcpy(&length, file.data() + file.size() - 8, 8);
  return {reinterpret_cast<const char*>(file.data()) + file.size() - 8 - length, length};
}

FragmentFooter parse_footer(const std::string& bytes, const ArraySchemas& schemas) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  FragmentFooter footer = FragmentFooter::parse(reader, schemas);
  EXPECT_TRUE(reader.empty());
  return footer;
}

// Format 23 adds sections that a reader may not know; TileDB 2.30.0 does not write them yet.
TEST(FragmentFooter, OptionalSectionsAreSkipped) {
  OpenArray array("types");
  std::string bytes = footer_bytes(*array.fragments[0]);
  const FragmentFooter before = parse_footer(bytes, array.schemas);
  bytes[0] = 23;
  const auto put = [&bytes](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(uint32_t{2});
  put(uint64_t{0});
  put(uint32_t{32});
  bytes.append(32, '\1');
  put(uint64_t{99});
  put(uint32_t{0});
  const FragmentFooter after = parse_footer(bytes, array.schemas);
  EXPECT_EQ(after.format_version, 23u);
  EXPECT_EQ(after.processed_conditions_offset, before.processed_conditions_offset);
  bytes.pop_back();
  EXPECT_THROW(parse_footer(bytes, array.schemas), CorruptData);
}

// No file of formats 10 to 17 is at hand: their footers are made from one of format 22 by taking
// out what came later (format_spec/fragment.md, Footer).
TEST(FragmentFooter, OlderLayouts) {
  OpenArray array("types");
  const std::string newest = footer_bytes(*array.fragments[0]);
  const FragmentFooter expected = parse_footer(newest, array.schemas);
  uint64_t name_bytes = 0;
  std::memcpy(&name_bytes, newest.data() + 4, 8);
  const size_t flags = 4 + 8 + name_bytes + 2 + (8 + 16) + 16;  // behind the domain and the counts
  for (char version = 10; version <= 17; ++version) {
    std::string bytes = newest;
    bytes[0] = version;
    if (version < 16) bytes.resize(bytes.size() - 8);  // processed conditions
    if (version < 12) bytes.resize(bytes.size() - 8);  // fragment minimum, maximum, …
    if (version < 11) bytes.resize(bytes.size() - 32 * expected.field_count);  // those of tiles
    if (version < 15) bytes.erase(flags + 1, 1);                               // delete metadata
    if (version < 14) bytes.erase(flags, 1);                                   // timestamps
    SCOPED_TRACE(static_cast<int>(version));
    const FragmentFooter footer = parse_footer(bytes, array.schemas);
    EXPECT_EQ(footer.tile_count, expected.tile_count);
    EXPECT_EQ(footer.file_bytes, expected.file_bytes);
    EXPECT_EQ(footer.rtree_offset, expected.rtree_offset);
    EXPECT_EQ(footer.tile_validity_offsets_offset, expected.tile_validity_offsets_offset);
    EXPECT_EQ(footer.processed_conditions_offset,
              version < 16 ? 0 : expected.processed_conditions_offset);
    EXPECT_THROW(parse_footer(bytes.substr(0, bytes.size() - 1), array.schemas), CorruptData);
  }
}

TEST(FragmentFooter, OldAndNewVersionsAreUnsupported) {
  OpenArray array("types");
  std::string bytes = footer_bytes(*array.fragments[0]);
  for (const char version : {char{9}, char{24}}) {
    bytes[0] = version;
    EXPECT_THROW(parse_footer(bytes, array.schemas), Unsupported);
  }
}

TEST(FragmentFooter, UnknownSchemaIsCorrupt) {
  OpenArray array("types");
  EXPECT_THROW(parse_footer(footer_bytes(*array.fragments[0]), {}), CorruptData);
}

}  // namespace
}  // namespace penstock::format::tiledb
