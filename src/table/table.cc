#include <penstock/error.h>
#include <penstock/table.h>

#include <cstring>

namespace penstock {

size_t Categories::size() const {
  return strings.empty() ? values.size() / size_of(type) : strings.size();
}

int64_t Column::code_at(uint64_t row) const {
  if (!categories) throw InvalidArgument("column '" + name + "' has no codes");
  if (!is_valid(row)) return -1;
  const size_t width = size_of(code_type);
  const std::byte* at = data.data() + row * width;
  const bool is_signed = code_type == DataType::kInt8 || code_type == DataType::kInt16 ||
                         code_type == DataType::kInt32 || code_type == DataType::kInt64;
  uint64_t bits = 0;
  std::memcpy(&bits, at, width);
  if (is_signed && width < 8) {
    const auto shift = static_cast<int>(64 - 8 * width);
    return static_cast<int64_t>(bits << shift) >> shift;
  }
  return static_cast<int64_t>(bits);
}

const Column* Table::find(std::string_view name) const noexcept {
  for (const Column& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

const Column& Table::at(std::string_view name) const {
  if (const Column* column = find(name)) return *column;
  std::string known;
  for (const Column& column : columns) known += (known.empty() ? "" : ", ") + column.name;
  throw NotFound("there is no column '" + std::string(name) + "'; choose from " + known);
}

}  // namespace penstock
