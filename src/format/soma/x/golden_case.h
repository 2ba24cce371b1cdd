#pragma once

#include <gtest/gtest.h>
#include <penstock/data_type.h>
#include <penstock/error.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_reader.h"
#include "base/testing/test_data.h"
#include "format/matrix_source.h"
#include "format/soma/x/source.h"
#include "io/memory_store.h"
#include "io/testing/tar_archive.h"

// The cases of tests/data/x_golden (written by tests/golden/make_x_golden.py) in memory, and a
// function that reads a whole matrix to compare with them. For tests only.

namespace penstock::format::soma {

/// A matrix by rows. A row's cells are sorted by column, then by the bytes of the value.
struct XCells {
  std::vector<int64_t> indptr;
  std::vector<int64_t> columns;
  std::vector<std::byte> values;

  friend bool operator==(const XCells&, const XCells&) = default;
};

struct XGoldenCase {
  std::shared_ptr<io::MemoryStore> store = std::make_shared<io::MemoryStore>();
  int64_t rows = 0, columns = 0;
  DataType type = DataType::kFloat32;
  tiledb::TimeRange range;
  XCells expected;
};

inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("x_golden"))) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".tar.gz")) names.push_back(name.substr(0, name.size() - 7));
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline void parse_expected(const std::string& bytes, XGoldenCase& golden) {
  ByteReader reader(std::as_bytes(std::span(bytes)));
  golden.rows = reader.read<int64_t>("rows");
  golden.columns = reader.read<int64_t>("columns");
  golden.type = static_cast<DataType>(reader.read<int64_t>("type"));
  golden.range.start = reader.read<uint64_t>("start");
  golden.range.end = reader.read<uint64_t>("end");
  const auto take = [&](std::vector<int64_t>& out, size_t count) {
    const auto view = reader.take(count * 8, "cells");
    out.resize(count);
    if (count != 0) std::memcpy(out.data(), view.data(), view.size());
  };
  take(golden.expected.indptr, static_cast<size_t>(golden.rows) + 1);
  const auto count = static_cast<size_t>(golden.expected.indptr.back());
  take(golden.expected.columns, count);
  const auto values = reader.take(count * size_of(golden.type), "values");
  golden.expected.values.assign(values.begin(), values.end());
}

inline XGoldenCase load_golden(const std::string& name) {
  XGoldenCase golden;
  const std::string tar = io::inflate_file(test_data("x_golden/" + name + ".tar.gz"));
  io::for_each_tar_member(tar, [&](const std::string& member, const std::string& contents) {
    if (member == "expected.bin") {
      parse_expected(contents, golden);
    } else {
      golden.store->put(member, contents);
    }
  });
  return golden;
}

/// Unpacks a packed record to output columns and the bytes of the values.
inline void unpack_record(const std::byte* record, const kernel::PackedRowLayout& layout,
                          std::vector<uint32_t>& indices, std::vector<std::byte>& values) {
  const auto view = kernel::PackedRowView::of(record, layout);
  const std::byte* wide = view.wide;
  indices.clear();
  values.clear();
  for (uint32_t i = 0; i < view.nnz; ++i) {
    uint32_t index = 0;
    std::memcpy(&index, view.indices + size_t{i} * layout.index_bytes, layout.index_bytes);
    indices.push_back(index);
    if (view.codes == nullptr || view.codes[i] == kEscapeCode) {
      values.insert(values.end(), wide, wide + layout.value_bytes);
      wide += layout.value_bytes;
      continue;
    }
    std::byte value[8] = {};
    const auto code = view.codes[i];
    if (layout.value_type == DataType::kFloat32) {
      const auto number = static_cast<float>(code);
      std::memcpy(value, &number, 4);
    } else if (layout.value_type == DataType::kFloat64) {
      const auto number = static_cast<double>(code);
      std::memcpy(value, &number, 8);
    } else {
      value[0] = std::byte{code};
    }
    values.insert(values.end(), value, value + layout.value_bytes);
  }
}

/// Appends a record as a row and checks that its columns ascend.
inline void append_row(const std::byte* record, const kernel::PackedRowLayout& layout,
                       std::span<const int64_t> columns, bool duplicates, XCells& out) {
  std::vector<uint32_t> indices;
  std::vector<std::byte> values;
  unpack_record(record, layout, indices, values);
  for (size_t i = 1; i < indices.size(); ++i) {
    ASSERT_TRUE(indices[i] > indices[i - 1] || (duplicates && indices[i] == indices[i - 1]))
        << indices[i - 1] << " before " << indices[i];
  }
  const size_t size = layout.value_bytes;
  const auto bits = [&](size_t i) {
    uint64_t value = 0;
    std::memcpy(&value, values.data() + i * size, size);
    return value;
  };
  std::vector<size_t> order(indices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(indices[a], bits(a)) < std::pair(indices[b], bits(b));
  });
  for (const size_t i : order) {
    ASSERT_LT(indices[i], columns.size());
    out.columns.push_back(columns[indices[i]]);
    const auto value = values.begin() + static_cast<std::ptrdiff_t>(i * size);
    out.values.insert(out.values.end(), value, value + static_cast<std::ptrdiff_t>(size));
  }
  out.indptr.push_back(static_cast<int64_t>(out.columns.size()));
}

/// Reads the rows (ascending) with the given columns, unit by unit with the same recycled
/// UnitDecode, tasks on `threads` threads.
inline XCells read_matrix(const MatrixSource& source, std::span<const int64_t> rows,
                          std::span<const int64_t> columns, bool duplicates, unsigned threads = 1) {
  XCells out;
  out.indptr.push_back(0);
  const auto reader = source.reader(columns);
  std::unique_ptr<UnitDecode> decode;
  std::vector<std::byte> record;
  auto row = rows.begin();
  for (uint32_t unit = 0; unit < source.units().size(); ++unit) {
    const auto end = std::lower_bound(row, rows.end(), source.units()[unit].row_end);
    const std::vector<int64_t> wanted(row, end);
    if (wanted.empty()) continue;
    row = end;
    decode = reader->start(unit, wanted, std::move(decode));
    decode->fetch();
    for (size_t phase = 0; phase < decode->phase_count(); ++phase) {
      const size_t tasks = decode->task_count(phase);
      std::vector<std::exception_ptr> errors(tasks);
      const auto work = [&](unsigned thread) {
        for (size_t task = thread; task < tasks; task += threads) {
          try {
            decode->run(phase, task);
          } catch (...) {
            errors[task] = std::current_exception();
          }
        }
      };
      if (threads == 1) {
        work(0);
      } else {
        std::vector<std::jthread> pool;
        for (unsigned i = 0; i < threads; ++i) pool.emplace_back(work, i);
      }
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
    }
    EXPECT_EQ(decode->row_count(), wanted.size());
    for (uint32_t i = 0; i < decode->row_count(); ++i) {
      // Exactly the promised bytes, so that a sanitizer sees a write past them.
      record = std::vector<std::byte>(decode->packed_bytes(i));
      decode->pack(i, record.data());
      append_row(record.data(), reader->row_layout(), columns, duplicates, out);
      EXPECT_EQ(static_cast<int64_t>(decode->nnz(i)),
                out.indptr.back() - out.indptr[out.indptr.size() - 2]);
    }
  }
  EXPECT_TRUE(row == rows.end()) << "rows without a unit";
  return out;
}

/// Returns the given rows and columns of `cells`.
inline XCells choose(const XCells& cells, size_t value_bytes, std::span<const int64_t> rows,
                     std::span<const int64_t> columns) {
  XCells out;
  out.indptr.push_back(0);
  for (const int64_t row : rows) {
    const auto begin = static_cast<size_t>(cells.indptr[static_cast<size_t>(row)]);
    const auto end = static_cast<size_t>(cells.indptr[static_cast<size_t>(row) + 1]);
    for (size_t i = begin; i < end; ++i) {
      if (!std::binary_search(columns.begin(), columns.end(), cells.columns[i])) continue;
      out.columns.push_back(cells.columns[i]);
      const auto value = cells.values.begin() + static_cast<std::ptrdiff_t>(i * value_bytes);
      out.values.insert(out.values.end(), value, value + static_cast<std::ptrdiff_t>(value_bytes));
    }
    out.indptr.push_back(static_cast<int64_t>(out.columns.size()));
  }
  return out;
}

}  // namespace penstock::format::soma
