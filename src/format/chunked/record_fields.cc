#include "format/chunked/record_fields.h"

#include <penstock/error.h>

#include <cstring>

#include "format/chunked/fixed_strings.h"
#include "format/chunked/swap_bytes.h"

namespace penstock::format::chunked {

Buffer read_field(const Array& records, const RecordField& field, uint64_t begin, uint64_t end,
                  unsigned threads) {
  const Buffer cells = read_values(records, begin, end, threads);
  const uint32_t record_bytes = records.info().cell_bytes;
  Buffer values((end - begin) * field.bytes);
  for (uint64_t i = 0; i < end - begin; ++i) {
    std::memcpy(values.data() + i * field.bytes, cells.data() + i * record_bytes + field.offset,
                field.bytes);
  }
  if (field.big_endian) {
    swap_numbers(values.span(), field.strings == StringForm::kFixedUtf32 ? 4 : field.bytes);
  }
  return values;
}

Strings read_string_field(const Array& records, const RecordField& field, uint64_t begin,
                          uint64_t end, unsigned threads) {
  const Buffer cells = read_field(records, field, begin, end, threads);
  if (field.strings == StringForm::kReferences) return records.strings_of(cells.span(), threads);
  Strings result;
  result.offsets.push_back(0);
  with_place(
      [&] {
        for (uint64_t i = 0; i < end - begin; ++i) {
          append_fixed(cells.span().subspan(i * field.bytes, field.bytes), field.strings,
                       result.characters);
          result.offsets.push_back(result.characters.size());
        }
      },
      [&] { return records.info().path + ", field " + field.name; });
  return result;
}

}  // namespace penstock::format::chunked
