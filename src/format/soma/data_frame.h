#pragma once

#include <penstock/experiment.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/threads/lazy.h"
#include "format/tiledb/reader/array_reader.h"
#include "io/store.h"

// State that a DataFrame handle shares: the place of the array and its reader, made on first use.

namespace penstock {

struct DataFrame::State {
  State(io::StorePtr store_in, std::string path_in, format::tiledb::TimeRange range_in,
        unsigned threads_in, std::optional<RowSelection> kept_in = std::nullopt)
      : store(std::move(store_in)),
        path(std::move(path_in)),
        range(range_in),
        threads(threads_in),
        kept(std::move(kept_in)) {}

  io::StorePtr store;
  std::string path;
  format::tiledb::TimeRange range;
  unsigned threads = 0;
  std::optional<RowSelection> kept;  ///< joinids of the rows that are shown; absent: all

  /// Opens the array on first use. If that fails, the next call tries again.
  const format::tiledb::ArrayReader& reader() const;

 private:
  Lazy<std::shared_ptr<const format::tiledb::ArrayReader>> reader_;
};

}  // namespace penstock
