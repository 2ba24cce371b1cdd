#include "format/anndata/table_writer.h"

#include <penstock/error.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "format/numbered_table.h"
#include "io/store.h"
#include "table/column_operations.h"

// Sources: zarr specification, version 3 (zarr-specs), and anndata, docs/fileformat-prose.md.

namespace penstock::format::anndata {
namespace {

using json = nlohmann::ordered_json;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kChunkRows = uint64_t{1} << 20;
constexpr int kZstdLevel = 3;

std::string data_type_name(DataType type, const std::string& column) {
  switch (type) {
    case DataType::kBool:
      return "bool";
    case DataType::kInt8:
      return "int8";
    case DataType::kUInt8:
      return "uint8";
    case DataType::kInt16:
      return "int16";
    case DataType::kUInt16:
      return "uint16";
    case DataType::kInt32:
      return "int32";
    case DataType::kUInt32:
      return "uint32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUInt64:
      return "uint64";
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    default:
      throw Unsupported(concat("AnnData has no encoding for values of type ", name_of(type),
                               ", column ", column));
  }
}

json encoding(const char* type, const char* version) {
  return {{"encoding-type", type}, {"encoding-version", version}};
}

class TableWriter {
 public:
  TableWriter(const StoredTable& table, const PutObject& put) : table_(table), put_(put) {}

  void write(const std::string& index) {
    json order = json::array();
    std::string index_name = std::string(kRowNumbers);
    for (const ColumnInfo& info : table_.columns()) {
      if (info.name == kRowNumbers) continue;
      if (info.name == index) {
        index_name = index;
      } else {
        order.push_back(info.name);
      }
      write_column(info);
    }
    if (index_name == kRowNumbers) {
      index_name = "_index";
      write_numbers(index_name, read(std::string(kRowNumbers)), encoding("array", "0.2.0"));
    }
    json attributes = encoding("dataframe", "0.2.0");
    attributes["_index"] = index_name;
    attributes["column-order"] = std::move(order);
    json root = group(std::move(attributes));
    root["consolidated_metadata"] = {
        {"kind", "inline"}, {"must_understand", false}, {"metadata", metadata_}};
    put_text("zarr.json", root);
  }

 private:
  Column read(const std::string& name) const {
    ReadOptions options;
    options.columns = {name};
    return std::move(table_.read(options).columns.at(0));
  }

  static json group(json attributes) {
    return {{"zarr_format", 3}, {"node_type", "group"}, {"attributes", std::move(attributes)}};
  }

  void put_text(const std::string& path, const json& document) {
    const std::string text = document.dump();
    put_(path, std::as_bytes(std::span(text)));
  }

  void put_node(const std::string& path, json document) {
    put_text(path + "/zarr.json", document);
    metadata_[path] = std::move(document);
  }

  void put_chunk(const std::string& path, uint64_t chunk, const Bytes& bytes) {
    Bytes packed(ZSTD_compressBound(bytes.size()));
    const size_t size =
        ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kZstdLevel);
    if (ZSTD_isError(size) != 0) throw Internal("a column cannot be compressed: " + path);
    put_(path + "/c/" + std::to_string(chunk), std::span(packed).first(size));
  }

  void put_array(const std::string& path, uint64_t rows, const std::string& type, json fill,
                 json first_codec, json attributes) {
    put_node(
        path,
        {{"zarr_format", 3},
         {"node_type", "array"},
         {"shape", {rows}},
         {"data_type", type},
         {"chunk_grid",
          {{"name", "regular"}, {"configuration", {{"chunk_shape", {chunk_rows(rows)}}}}}},
         {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
         {"fill_value", std::move(fill)},
         {"codecs",
          {std::move(first_codec),
           {{"name", "zstd"}, {"configuration", {{"level", kZstdLevel}, {"checksum", false}}}}}},
         {"attributes", std::move(attributes)},
         {"storage_transformers", json::array()}});
  }

  static uint64_t chunk_rows(uint64_t rows) { return std::clamp<uint64_t>(rows, 1, kChunkRows); }

  void write_fixed(const std::string& path, DataType type, std::span<const std::byte> values,
                   json attributes) {
    const size_t cell = size_of(type);
    const uint64_t rows = values.size() / cell;
    json fill = 0;
    if (type == DataType::kBool) fill = false;
    if (type == DataType::kFloat32 || type == DataType::kFloat64) fill = 0.0;
    put_array(path, rows, data_type_name(type, path), std::move(fill),
              {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}},
              std::move(attributes));
    const uint64_t step = chunk_rows(rows);
    for (uint64_t begin = 0; begin < rows; begin += step) {
      Bytes chunk(step * cell);  // the last one is filled up with zeros
      const uint64_t count = std::min(step, rows - begin);
      std::memcpy(chunk.data(), values.data() + begin * cell, count * cell);
      put_chunk(path, begin / step, chunk);
    }
  }

  void write_numbers(const std::string& path, const Column& column, json attributes) {
    write_fixed(path, column.type, column.data, std::move(attributes));
  }

  template <typename TextOf>
  void write_texts(const std::string& path, uint64_t rows, TextOf&& text_of, json attributes) {
    put_array(path, rows, "string", "", {{"name", "vlen-utf8"}}, std::move(attributes));
    const uint64_t step = chunk_rows(rows);
    for (uint64_t begin = 0; begin < rows; begin += step) {
      Bytes chunk;
      const auto append = [&](const void* from, size_t size) {
        const auto* const bytes = static_cast<const std::byte*>(from);
        chunk.insert(chunk.end(), bytes, bytes + size);
      };
      const auto count = static_cast<uint32_t>(step);
      append(&count, sizeof(count));
      for (uint64_t row = begin; row < begin + step; ++row) {
        const std::string_view text = row < rows ? text_of(row) : std::string_view();
        const auto length = static_cast<uint32_t>(text.size());
        append(&length, sizeof(length));
        append(text.data(), text.size());
      }
      put_chunk(path, begin / step, chunk);
    }
  }

  void write_mask(const std::string& path, const Column& column) {
    Bytes mask(column.size());
    for (uint64_t row = 0; row < column.size(); ++row) {
      mask[row] = column.is_valid(row) ? std::byte{0} : std::byte{1};
    }
    write_fixed(path, DataType::kBool, mask, encoding("array", "0.2.0"));
  }

  void write_column(const ColumnInfo& info) {
    if (!io::is_plain_path(info.name) || info.name.find('/') != std::string::npos) {
      throw Unsupported("AnnData cannot store a column of this name: '" + info.name + "'");
    }
    Column column = read(info.name);
    const std::string& name = info.name;
    if (column.categories && !column.categories->from_strings) return write_codes(name, column);
    table::decode_strings(column);
    const bool missing = !column.validity.empty();
    if (column.is_variable()) {
      const auto text_of = [&](uint64_t row) { return column.string_at(row); };
      if (!missing) {
        return write_texts(name, column.size(), text_of, encoding("string-array", "0.2.0"));
      }
      put_node(name, group(encoding("nullable-string-array", "0.1.0")));
      write_texts(name + "/values", column.size(), text_of, encoding("string-array", "0.2.0"));
      return write_mask(name + "/mask", column);
    }
    const bool is_float = column.type == DataType::kFloat32 || column.type == DataType::kFloat64;
    if (!missing || is_float) {
      if (missing) put_nan(column);
      return write_numbers(name, column, encoding("array", "0.2.0"));
    }
    const bool is_bool = column.type == DataType::kBool;
    put_node(name, group(encoding(is_bool ? "nullable-boolean" : "nullable-integer", "0.1.0")));
    write_numbers(name + "/values", column, encoding("array", "0.2.0"));
    write_mask(name + "/mask", column);
  }

  /// AnnData has no floats with a mask.
  static void put_nan(Column& column) {
    const auto fill = [&](auto nan) {
      for (uint64_t row = 0; row < column.size(); ++row) {
        if (column.is_valid(row)) continue;
        std::memcpy(column.data.data() + row * sizeof(nan), &nan, sizeof(nan));
      }
    };
    if (column.type == DataType::kFloat32) {
      fill(std::numeric_limits<float>::quiet_NaN());
    } else {
      fill(std::numeric_limits<double>::quiet_NaN());
    }
  }

  void write_codes(const std::string& name, Column& column) {
    table::narrow_codes(column);
    const Categories& categories = *column.categories;
    json attributes = encoding("categorical", "0.2.0");
    attributes["ordered"] = categories.ordered;
    put_node(name, group(std::move(attributes)));
    write_fixed(name + "/codes", column.code_type, column.data, encoding("array", "0.2.0"));
    if (is_string(categories.type)) {
      write_texts(
          name + "/categories", categories.strings.size(),
          [&](uint64_t i) { return std::string_view(categories.strings[i]); },
          encoding("string-array", "0.2.0"));
    } else {
      write_fixed(name + "/categories", categories.type, categories.values,
                  encoding("array", "0.2.0"));
    }
  }

  const StoredTable& table_;
  const PutObject& put_;
  json metadata_ = json::object();
};

}  // namespace

void write_table(const StoredTable& table, const std::string& index, const PutObject& put) {
  TableWriter(table, put).write(index);
}

}  // namespace penstock::format::anndata
