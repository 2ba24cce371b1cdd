#include "kernel/repack_row.h"

#include <penstock/error.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>

#include "kernel/index_type.h"
#include "kernel/value_type.h"

namespace penstock::kernel {
namespace {

/// Order of the entries by new number. Entries of a duplicated column keep their order.
template <typename Index>
void order_entries(const std::byte* indices, uint32_t nnz, const ColumnNumbers& columns,
                   RepackScratch& scratch) {
  scratch.marked.resize((size_t{columns.end} + 63) / 64, 0);
  scratch.entry_of.resize(columns.end);
  scratch.order.resize(nnz);
  scratch.numbers.resize(nnz);
  bool twice = false;
  for (uint32_t i = 0; i < nnz; ++i) {
    const uint32_t number = columns.numbers[load_unaligned<Index>(indices + i * sizeof(Index))];
    uint64_t& word = scratch.marked[number / 64];
    const uint64_t bit = uint64_t{1} << (number % 64);
    twice |= (word & bit) != 0;
    word |= bit;
    scratch.entry_of[number] = i;
  }
  size_t count = 0;
  for (size_t w = 0; w < scratch.marked.size(); ++w) {
    for (uint64_t word = scratch.marked[w]; word != 0; word &= word - 1) {
      const auto number =
          static_cast<uint32_t>(w * 64) + static_cast<uint32_t>(std::countr_zero(word));
      scratch.numbers[count] = number;
      scratch.order[count++] = scratch.entry_of[number];
    }
    scratch.marked[w] = 0;
  }
  if (!twice) return;
  std::iota(scratch.order.begin(), scratch.order.end(), 0U);
  std::stable_sort(scratch.order.begin(), scratch.order.end(), [&](uint32_t a, uint32_t b) {
    return columns.numbers[load_unaligned<Index>(indices + a * sizeof(Index))] <
           columns.numbers[load_unaligned<Index>(indices + b * sizeof(Index))];
  });
  for (uint32_t i = 0; i < nnz; ++i) {
    const std::byte* const at = indices + scratch.order[i] * sizeof(Index);
    scratch.numbers[i] = columns.numbers[load_unaligned<Index>(at)];
  }
}

template <typename Index>
void keep_order(const std::byte* indices, uint32_t nnz, const ColumnNumbers& columns,
                RepackScratch& scratch) {
  scratch.order.resize(nnz);
  std::iota(scratch.order.begin(), scratch.order.end(), 0U);
  scratch.numbers.resize(nnz);
  for (uint32_t i = 0; i < nnz; ++i) {
    scratch.numbers[i] = columns.numbers[load_unaligned<Index>(indices + i * sizeof(Index))];
  }
}

/// Copies `count` values: value i is the one at place_of(i).
template <typename PlaceOf>
void copy_values(DataType from, const std::byte* values, DataType to, uint32_t count,
                 PlaceOf&& place_of, std::byte* out) {
  visit_number(from, [&](auto from_identity) {
    using From = typename decltype(from_identity)::type;
    visit_number(to, [&](auto to_identity) {
      using To = typename decltype(to_identity)::type;
      for (uint32_t i = 0; i < count; ++i) {
        const auto value = load_unaligned<From>(values + size_t{place_of(i)} * sizeof(From));
        const auto converted = static_cast<To>(value);
        std::memcpy(out + size_t{i} * sizeof(To), &converted, sizeof(To));
      }
    });
  });
}

bool is_signed_integer(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kInt32 ||
         type == DataType::kInt64;
}

DataType signed_of(size_t bytes) {
  switch (bytes) {
    case 1:
      return DataType::kInt8;
    case 2:
      return DataType::kInt16;
    case 4:
      return DataType::kInt32;
    default:
      return DataType::kInt64;
  }
}

}  // namespace

ColumnNumbers::ColumnNumbers(std::vector<uint32_t> numbers_in) : numbers(std::move(numbers_in)) {
  identity = ascending = true;
  for (size_t i = 0; i < numbers.size(); ++i) {
    identity &= numbers[i] == i;
    ascending &= i == 0 || numbers[i] > numbers[i - 1];
    end = std::max(end, numbers[i] + 1);
  }
}

DataType common_value_type(DataType a, DataType b) {
  if (a == DataType::kBool) a = DataType::kUInt8;
  if (b == DataType::kBool) b = DataType::kUInt8;
  if (a == b) return a;
  for (const DataType type : {a, b}) {
    if (!is_integer(type) && !is_floating(type)) {
      throw Unsupported("values of type " + std::string(name_of(type)) + " are not numbers");
    }
  }
  if (is_floating(a) || is_floating(b)) {
    const DataType other = is_floating(a) ? b : a;
    return is_integer(other) && size_of(other) <= 2 && size_of(is_floating(a) ? a : b) == 4
               ? DataType::kFloat32
               : DataType::kFloat64;
  }
  if (is_signed_integer(a) == is_signed_integer(b)) return size_of(a) > size_of(b) ? a : b;
  const size_t unsigned_bytes = size_of(is_signed_integer(a) ? b : a);
  const size_t signed_bytes = size_of(is_signed_integer(a) ? a : b);
  if (signed_bytes > unsigned_bytes) return signed_of(signed_bytes);
  return unsigned_bytes == 8 ? DataType::kFloat64 : signed_of(unsigned_bytes * 2);
}

double most_growth(const PackedRowLayout& from, const PackedRowLayout& to) {
  const double coded = (to.index_bytes + 1.0) / (from.index_bytes + 1.0);
  const double wide =
      static_cast<double>(to.index_bytes + to.value_bytes) / (from.index_bytes + from.value_bytes);
  return std::max({coded, wide, 1.0});
}

void renumber_row(const PackedRowLayout& layout, const ColumnNumbers& columns, std::byte* record) {
  const PackedRowView view = PackedRowView::of(record, layout);
  std::byte* const indices = record + (view.indices - record);
  with_index_type(layout.index_bytes, [&](auto index) {
    using Index = decltype(index);
    for (uint32_t i = 0; i < view.nnz; ++i) {
      std::byte* const at = indices + i * sizeof(Index);
      const auto number = static_cast<Index>(columns.numbers[load_unaligned<Index>(at)]);
      std::memcpy(at, &number, sizeof(Index));
    }
  });
}

void repack_row(const PackedRowLayout& from, const std::byte* record, const ColumnNumbers& columns,
                const PackedRowLayout& to, std::byte* destination, RepackScratch& scratch) {
  const PackedRowView view = PackedRowView::of(record, from);
  const uint32_t nnz = view.nnz;
  const bool raw = view.wide_count == kRawRow;
  with_index_type(from.index_bytes, [&](auto index) {
    using Index = decltype(index);
    if (columns.ascending) {
      keep_order<Index>(view.indices, nnz, columns, scratch);
    } else {
      order_entries<Index>(view.indices, nnz, columns, scratch);
    }
  });
  const uint32_t* const order = scratch.order.data();
  std::byte* out = destination;
  const PackedRowHeader header{nnz, view.wide_count};
  std::memcpy(out, &header, sizeof(header));
  out += sizeof(header);
  if (raw) {
    copy_values(
        from.value_type, view.wide, to.value_type, nnz, [&](uint32_t i) { return order[i]; }, out);
    out += size_t{nnz} * to.value_bytes;
  } else if (view.wide_count != 0) {
    scratch.place_of_wide.resize(nnz);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < nnz; ++i) {
      if (view.codes[i] == kEscapeCode) scratch.place_of_wide[i] = seen++;
    }
    uint32_t next = 0;
    copy_values(
        from.value_type, view.wide, to.value_type, view.wide_count,
        [&](uint32_t) {
          while (view.codes[order[next]] != kEscapeCode) ++next;
          return scratch.place_of_wide[order[next++]];
        },
        out);
    out += size_t{view.wide_count} * to.value_bytes;
  }
  with_index_type(to.index_bytes, [&](auto to_index) {
    using To = decltype(to_index);
    for (uint32_t i = 0; i < nnz; ++i, out += sizeof(To)) {
      const auto number = static_cast<To>(scratch.numbers[i]);
      std::memcpy(out, &number, sizeof(To));
    }
  });
  if (!raw) {
    for (uint32_t i = 0; i < nnz; ++i) *out++ = static_cast<std::byte>(view.codes[order[i]]);
  }
  const std::byte* const end = destination + to.record_bytes(nnz, view.wide_count);
  std::memset(out, 0, static_cast<size_t>(end - out));
}

}  // namespace penstock::kernel
