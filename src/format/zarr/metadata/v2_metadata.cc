#include <penstock/error.h>

#include "base/concat.h"
#include "format/chunked/chunk_grid.h"
#include "format/zarr/chunk_layout.h"
#include "format/zarr/metadata/array_metadata.h"
#include "format/zarr/metadata/cell_type.h"
#include "format/zarr/metadata/codec_names.h"
#include "format/zarr/metadata/fill_value.h"
#include "format/zarr/metadata/metadata_field.h"

namespace penstock::format::zarr {
namespace {

using chunked::ArrayInfo;
using chunked::StringForm;
using nlohmann::json;

/// The settings of a numcodecs codec are beside its id.
codec::ChunkFilter filter_of(const json& codec) {
  return filter_named(text_field(codec, "id"), codec);
}

codec::ChunkPipeline pipeline_of(const json& zarray, const ArrayInfo& info) {
  std::vector<codec::ChunkFilter> filters;
  bool vlen = false;
  if (const json& list = field(zarray, "filters"); !list.is_null()) {
    if (!list.is_array()) throw CorruptData("filters must be a list, but is " + shown(list));
    for (const json& codec : list) {
      if (is_vlen_utf8(text_field(codec, "id")) && filters.empty() && !vlen) {
        vlen = true;
      } else {
        filters.push_back(filter_of(codec));
      }
    }
  }
  const bool objects = info.strings == StringForm::kVlenUtf8;
  if (objects && !vlen) {
    throw Unsupported(
        "data type \"|O\" is read with the filter vlen-utf8 alone, but the filters are " +
        shown(field(zarray, "filters")) + std::string(kWriteAgain));
  }
  if (vlen && !objects) {
    throw CorruptData("the filter vlen-utf8 must have data type \"|O\", but has " +
                      shown(field(zarray, "dtype")));
  }
  if (const json& compressor = field(zarray, "compressor"); !compressor.is_null()) {
    filters.push_back(filter_of(compressor));
  }
  return codec::ChunkPipeline(std::move(filters));
}

/// Column-major cells are read where that is the same.
void expect_row_major(const json& zarray, const ArrayInfo& info) {
  const std::string order = text_field(zarray, "order");
  if (order == "C") return;
  if (order != "F") throw CorruptData("order must be C or F, but is " + shown(json(order)));
  size_t long_dimensions = 0;
  for (const uint64_t length : info.chunk_shape) long_dimensions += length > 1 ? 1 : 0;
  if (long_dimensions > 1) {
    throw Unsupported(concat("an array of ", info.shape.size(),
                             " dimensions in column-major order (order F) is not read",
                             kWriteAgain));
  }
}

}  // namespace

ArrayMetadata parse_v2_array(const json& zarray, json attributes, const std::string& path) {
  return with_place(
      [&] {
        ArrayMetadata array;
        ArrayInfo& info = array.info;
        info.path = path;
        if (field(zarray, "zarr_format") != 2) {
          throw Unsupported("zarr_format must be 2 in .zarray, but is " +
                            shown(field(zarray, "zarr_format")));
        }
        info.shape = lengths(field(zarray, "shape"), "shape");
        info.chunk_shape = lengths(field(zarray, "chunks"), "chunks");
        allow_no_chunks(info);
        set_v2_type(info, field(zarray, "dtype"));
        chunked::expect_sound(info);
        expect_row_major(zarray, info);
        info.pipeline = pipeline_of(zarray, info);
        set_fill_value(info, field(zarray, "fill_value"));
        const json& separator = field(zarray, "dimension_separator");
        if (!separator.is_null()) array.keys.separator = separator_of(separator);
        array.attributes = std::move(attributes);
        info.layout = layout_text(array, 2);
        return array;
      },
      [&] { return path; });
}

}  // namespace penstock::format::zarr
