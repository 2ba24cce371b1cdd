// Prints the facts of each golden store as Penstock reads them and compares the text with TileDB's
// (tests/data/tiledb_golden, tests/golden/make_tiledb_golden.py).

#include <gtest/gtest.h>
#include <penstock/error.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/hash/hex.h"
#include "base/testing/test_data.h"
#include "format/tiledb/condition/delete_condition.h"
#include "format/tiledb/directory/array_directory.h"
#include "format/tiledb/fragment/fragment_metadata.h"
#include "format/tiledb/group.h"
#include "format/tiledb/integer_value.h"
#include "format/tiledb/metadata.h"
#include "format/tiledb/schema/enumeration.h"

namespace penstock::format::tiledb {
namespace {

using Lines = std::vector<std::string>;

std::string golden_path(const std::string& name) { return test_data("tiledb_golden/" + name); }

// As value_text in the script: integers and times in decimal, reals as "x" and their bytes, text as
// it is.
std::string value_text(DataType type, std::span<const std::byte> bytes) {
  if (is_floating(type)) return "x" + hex(bytes);
  if (is_string(type)) return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (type == DataType::kUInt64) {
    return std::to_string(static_cast<uint64_t>(read_integer(type, bytes.data())));
  }
  return std::to_string(read_integer(type, bytes.data()));
}

std::string box_text(const ArraySchema& schema, const NDRange& box) {
  std::string text;
  for (size_t d = 0; d < box.size(); ++d) {
    const DataType type = schema.dimensions[d].type;
    text += std::string(d == 0 ? "" : " ") + "[" + value_text(type, box[d].min()) + " " +
            value_text(type, box[d].max()) + "]";
  }
  return text;
}

std::string filters_text(const codec::FilterPipeline& pipeline) {
  std::ostringstream text;
  for (const codec::FilterConfig& filter : pipeline.filters()) {
    text << (text.tellp() == 0 ? "" : " ") << static_cast<int>(filter.type);
    switch (filter.type) {
      case codec::FilterType::kGzip:
      case codec::FilterType::kZstd:
      case codec::FilterType::kLz4:
      case codec::FilterType::kBzip2:
        text << "/" << filter.compression_level;
        break;
      case codec::FilterType::kBitWidthReduction:
      case codec::FilterType::kPositiveDelta:
        text << "/" << filter.max_window_bytes;
        break;
      case codec::FilterType::kScaleFloat:
        text << "/" << filter.scale << "/" << filter.offset << "/" << filter.byte_width;
        break;
      default:
        break;
    }
  }
  return "[" + text.str() + "]";
}

void add_schema(Lines& lines, const ArraySchema& schema) {
  std::ostringstream line;
  line << "schema version=" << schema.format_version << " sparse=" << !schema.dense()
       << " duplicates=" << schema.allows_duplicates << " cell_order=" << name_of(schema.cell_order)
       << " tile_order=" << name_of(schema.tile_order) << " capacity=" << schema.capacity;
  lines.push_back(line.str());
  lines.push_back("filters coords=" + filters_text(schema.coords_filters) +
                  " offsets=" + filters_text(schema.offsets_filters) +
                  " validity=" + filters_text(schema.validity_filters));
  for (const Dimension& dimension : schema.dimensions) {
    std::string text = "dim " + dimension.name + " type=" + std::string(name_of(dimension.type)) +
                       " var=" + (dimension.var_length() ? "1" : "0");
    if (!dimension.var_length()) {
      const auto domain = std::span<const std::byte>(dimension.domain);
      text += " domain=[" + value_text(dimension.type, domain.first(domain.size() / 2)) + " " +
              value_text(dimension.type, domain.last(domain.size() / 2)) + "]";
      if (dimension.has_extent()) {
        text += " extent=" + value_text(dimension.type, dimension.tile_extent);
      }
    }
    lines.push_back(text + " filters=" + filters_text(dimension.filters));
  }
  for (const Attribute& attribute : schema.attributes) {
    lines.push_back(
        "attr " + attribute.name + " type=" + std::string(name_of(attribute.type)) +
        " number=" + (attribute.var_length() ? "var" : std::to_string(attribute.cell_val_num)) +
        " nullable=" + (attribute.nullable ? "1" : "0") +
        " enum=" + (attribute.has_enumeration() ? attribute.enumeration : "-") +
        " filters=" + filters_text(attribute.filters));
  }
  if (!schema.current_domain.empty()) {
    lines.push_back("current_domain " + box_text(schema, schema.current_domain));
  }
}

void add_enumerations(Lines& lines, const ArrayDirectory& directory, const ArraySchema& schema) {
  for (const Attribute& attribute : schema.attributes) {
    if (!attribute.has_enumeration()) continue;
    const auto enumeration =
        load_enumeration(*directory.store(), directory.path(), schema, attribute.enumeration);
    std::string values;
    for (size_t i = 0; i < enumeration->size(); ++i) {
      values += (i == 0 ? "" : " ") + value_text(enumeration->type, enumeration->value(i));
    }
    lines.push_back("enumeration " + enumeration->name +
                    " ordered=" + (enumeration->ordered ? "1" : "0") + " values=" + values);
  }
}

void add_metadata(Lines& lines, const std::string& path) {
  for (const auto& [key, value] : load_metadata(*io::file_store(), path)) {
    std::string text = "meta " + key + " ";
    if (const auto string = value.as_string()) {
      text += "text " + hex(std::as_bytes(std::span(*string)));
    } else if (const auto integer = value.as_int()) {
      text += "int " + std::to_string(*integer);
    } else if (value.count == 1) {
      text += "float " + value_text(value.type, value.bytes);
    } else {
      text += std::string(name_of(value.type)) + " " + std::to_string(value.count) + " x" +
              hex(value.bytes);
    }
    lines.push_back(text);
  }
}

std::string box_of_tile(const TileBounds& bounds, const ArraySchema& schema, uint64_t tile) {
  NDRange box;
  for (size_t d = 0; d < schema.dimensions.size(); ++d) {
    const size_t size = schema.dimensions[d].cell_bytes();
    Range range;
    range.min_bytes = size;
    range.bytes.resize(2 * size);
    if (is_floating(schema.dimensions[d].type)) {
      const double values[2] = {bounds.min<double>(tile, d), bounds.max<double>(tile, d)};
      std::memcpy(range.bytes.data(), values, sizeof(values));
    } else {  // little-endian: the low bytes are the value
      const int64_t low = bounds.min_int(tile, d), high = bounds.max_int(tile, d);
      std::memcpy(range.bytes.data(), &low, size);
      std::memcpy(range.bytes.data() + size, &high, size);
    }
    box.push_back(std::move(range));
  }
  return box_text(schema, box);
}

bool all_fixed(const ArraySchema& schema) {
  return std::none_of(schema.dimensions.begin(), schema.dimensions.end(),
                      [](const Dimension& d) { return d.var_length(); });
}

void add_fragments(Lines& lines, const ArrayDirectory& directory, const ArraySchemas& schemas) {
  const bool dense = schemas.find(directory.latest_schema_name())->second->dense();
  const auto locations = directory.fragments(dense);
  const auto footers = directory.load_consolidated_footers(locations);
  for (size_t i = 0; i < locations.size(); ++i) {
    const auto fragment =
        FragmentMetadata::load(directory.store(), locations[i], schemas, &footers);
    const TimestampedName& name = locations[i].name;
    std::ostringstream line;
    line << "fragment " << i << " name=" << name.name
         << " version=" << fragment->footer().format_version << " dense=" << fragment->dense()
         << " time=" << name.time.start << "-" << name.time.end
         << " schema=" << fragment->schema().name << " cells=" << fragment->cell_count()
         << " consolidated_footer=" << footers.find(name.name).has_value();
    lines.push_back(line.str());
    const std::string place = "fragment " + std::to_string(i);
    lines.push_back(place +
                    " domain=" + box_text(fragment->schema(), fragment->footer().non_empty_domain));
    if (fragment->dense() || !all_fixed(fragment->schema())) continue;
    fragment->load_tile_bounds();
    for (uint64_t tile = 0; tile < fragment->tile_count(); ++tile) {
      lines.push_back(place + " mbr " + std::to_string(tile) + " " +
                      box_of_tile(fragment->tile_bounds(), fragment->schema(), tile));
    }
  }
}

// -1, 0, 1; integers and text only.
int compare(DataType type, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (is_string(type)) {
    const auto text = [&](auto bytes) { return value_text(type, bytes); };
    return text(a).compare(text(b));
  }
  const int64_t x = read_integer(type, a.data()), y = read_integer(type, b.data());
  return x < y ? -1 : x > y ? 1 : 0;
}

void expand(const ArraySchema& schema, NDRange& box, const NDRange& other) {
  for (size_t d = 0; d < box.size(); ++d) {
    const DataType type = schema.dimensions[d].type;
    const Range old = box[d];
    const auto low = compare(type, other[d].min(), old.min()) < 0 ? other[d].min() : old.min();
    const auto high = compare(type, other[d].max(), old.max()) > 0 ? other[d].max() : old.max();
    Range range;
    range.min_bytes = low.size();
    range.bytes.assign(low.begin(), low.end());
    range.bytes.insert(range.bytes.end(), high.begin(), high.end());
    box[d] = std::move(range);
  }
}

template <typename Items, typename Text>
std::string joined(const Items& items, std::string_view separator, Text text) {
  std::string result;
  for (const auto& item : items)
    result += (result.empty() ? "" : std::string(separator)) + text(item);
  return result;
}

std::string metadata_keys(const std::string& path, TimeRange range) {
  return joined(load_metadata(*io::file_store(), path, range), ",",
                [](const auto& entry) { return entry.first; });
}

void add_visible(Lines& lines, const std::string& path, TimeRange range) {
  const auto directory = ArrayDirectory::load(io::file_store(), path, range);
  const ArraySchemas schemas = directory.load_schemas();
  const ArraySchema& schema = *schemas.find(directory.latest_schema_name())->second;
  NDRange box;
  for (const auto& location : directory.fragments(schema.dense())) {
    const auto fragment = FragmentMetadata::load(directory.store(), location, schemas);
    EXPECT_EQ(location.partly_in_range, !range.contains(location.name.time));
    EXPECT_TRUE(!location.partly_in_range || fragment->has_timestamps());
    if (box.empty()) {
      box = fragment->footer().non_empty_domain;
    } else {
      expand(schema, box, fragment->footer().non_empty_domain);
    }
  }
  lines.push_back(
      "at " + std::to_string(range.start) + "-" + std::to_string(range.end) +
      " attributes=" + joined(schema.attributes, ",", [](const auto& a) { return a.name; }) +
      " domain=" + (box.empty() ? "-" : box_text(schema, box)) +
      " metadata=" + metadata_keys(path, range));
}

std::string condition_text(const DeleteCondition& node) {
  static constexpr std::string_view kJoins[] = {"and", "or", "not"};
  if (node.kind == DeleteCondition::Kind::kJoin) {
    return "(" + std::string(kJoins[static_cast<size_t>(node.join)]) + " " +
           joined(node.children, " ", condition_text) + ")";
  }
  std::string text = "(" + node.field + " " + std::to_string(static_cast<int>(node.op));
  const auto add = [&](std::span<const std::byte> value) {
    text += " " + (value.empty() ? "-" : hex(value));
  };
  if (node.op != ConditionOp::kIn && node.op != ConditionOp::kNotIn) {
    add(node.value);
  } else {
    for (size_t i = 0; i < node.member_count(); ++i) add(node.member(i));
  }
  return text + ")";
}

void add_deletes(Lines& lines, const ArrayDirectory& directory, const ArraySchemas& schemas) {
  for (const DeleteCommit& commit : directory.deletes()) {
    lines.push_back("delete " + std::to_string(commit.timestamp) + " " +
                    condition_text(load_delete_condition(*directory.store(), commit)));
  }
  for (const TimeRange range : {TimeRange{0, 1400}, TimeRange{0, 1500}, TimeRange{0, 2600},
                                TimeRange{2000, 3000}, TimeRange{0, 5000}}) {
    const auto visible = ArrayDirectory::load(io::file_store(), directory.path(), range);
    lines.push_back("deletes at " + std::to_string(range.start) + "-" + std::to_string(range.end) +
                    ": " + joined(visible.deletes(), " ", [](const auto& commit) {
                      return std::to_string(commit.timestamp);
                    }));
  }
  const auto fragment =
      FragmentMetadata::load(directory.store(), directory.fragments(false).at(0), schemas);
  EXPECT_TRUE(fragment->has_timestamps());
  EXPECT_TRUE(fragment->has_delete_metadata());
  fragment->load_processed_conditions();
  // Applied conditions are found again by their markers.
  std::map<std::string, uint64_t> times;
  for (const DeleteCommit& commit : directory.deletes()) times[commit.marker] = commit.timestamp;
  lines.push_back("processed " +
                  joined(fragment->processed_conditions(), " ", [&](const std::string& marker) {
                    return std::to_string(times.at(marker));
                  }));
}

void add_group(Lines& lines, const std::string& path) {
  const Group group = Group::load(*io::file_store(), path);
  std::set<std::string> members;
  for (const auto& [key, member] : group.members()) {
    const std::string prefix = path + "/";
    members.insert(
        "member " + (member.name.empty() ? "-" : member.name) +
        " type=" + (member.type == ObjectType::kGroup ? "group" : "array") + " path=" +
        (member.path.starts_with(prefix) ? member.path.substr(prefix.size()) : member.path));
  }
  lines.insert(lines.end(), members.begin(), members.end());
  add_metadata(lines, path);
}

void add_group_at(Lines& lines, const std::string& path, TimeRange range) {
  const Group group = Group::load(*io::file_store(), path, range);
  lines.push_back("at 0-" + std::to_string(range.end) + " members=" +
                  joined(group.members(), ",", [](const auto& entry) { return entry.first; }) +
                  " metadata=" + metadata_keys(path, range));
}

Lines read_lines(const std::string& path) {
  std::ifstream file(path);
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<TimeRange> ranges_of(const Lines& expected) {
  std::vector<TimeRange> ranges;
  for (const std::string& line : expected) {
    TimeRange range;
    if (std::sscanf(line.c_str(), "at %lu-%lu", &range.start, &range.end) == 2) {
      ranges.push_back(range);
    }
  }
  return ranges;
}

Lines describe(const std::string& path, const Lines& expected) {
  Lines lines;
  if (object_type(*io::file_store(), path) == ObjectType::kGroup) {
    add_group(lines, path);
    for (const TimeRange range : ranges_of(expected)) add_group_at(lines, path, range);
    return lines;
  }
  const auto directory = ArrayDirectory::load(io::file_store(), path);
  const ArraySchemas schemas = directory.load_schemas();
  const ArraySchema& schema = *schemas.find(directory.latest_schema_name())->second;
  add_schema(lines, schema);
  add_enumerations(lines, directory, schema);
  add_metadata(lines, path);
  add_fragments(lines, directory, schemas);
  for (const TimeRange range : ranges_of(expected)) add_visible(lines, path, range);
  if (!directory.deletes().empty()) add_deletes(lines, directory, schemas);
  return lines;
}

// A facts file describes the store itself, or parts of it under "array NAME" and "group NAME".
std::vector<std::pair<std::string, Lines>> sections(const std::string& name) {
  std::vector<std::pair<std::string, Lines>> result{
      {name == "groups" ? golden_path("groups/root") : golden_path(name), {}}};
  for (const std::string& line : read_lines(golden_path(name + ".facts"))) {
    const bool begins = line.starts_with("array ") || line.starts_with("group ");
    if (begins) {
      result.emplace_back(io::join(golden_path(name), line.substr(6)), Lines{});
    } else {
      result.back().second.push_back(line);
    }
  }
  if (result.front().second.empty()) result.erase(result.begin());
  return result;
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, SaysWhatTileDbSays) {
  for (const auto& [path, expected] : sections(GetParam())) {
    ASSERT_FALSE(expected.empty());
    const Lines actual = describe(path, expected);
    for (size_t i = 0; i < std::max(actual.size(), expected.size()); ++i) {
      EXPECT_EQ(i < actual.size() ? actual[i] : "(nothing)",
                i < expected.size() ? expected[i] : "(nothing)")
          << "line " << i + 1 << " of " << path;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, GoldenTest,
                         testing::Values("types", "strings", "hilbert", "dense", "consolidated",
                                         "vacuumed", "deletes", "enumerated", "evolved",
                                         "evolved_digits", "current_domain", "labelled",
                                         "deleted_fragments", "groups", "format18"),
                         [](const auto& store) { return std::string(store.param); });

TEST(Golden, EncryptedIsUnsupported) {
  const auto directory = ArrayDirectory::load(io::file_store(), golden_path("encrypted"));
  try {
    directory.load_schemas();
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("without encryption"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("__schema"), std::string::npos);
  }
}

TEST(Golden, NothingThere) {
  EXPECT_THROW(ArrayDirectory::load(io::file_store(), golden_path("absent")), NotFound);
  EXPECT_THROW(ArrayDirectory::load(io::file_store(), golden_path("groups/root")), NotFound);
  EXPECT_THROW(Group::load(*io::file_store(), golden_path("types")), NotFound);
  EXPECT_EQ(object_type(*io::file_store(), golden_path("absent")), ObjectType::kInvalid);
  EXPECT_EQ(object_type(*io::file_store(), golden_path("types")), ObjectType::kArray);
  EXPECT_TRUE(load_metadata(*io::file_store(), golden_path("absent")).empty());
}

}  // namespace
}  // namespace penstock::format::tiledb
