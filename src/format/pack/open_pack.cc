#include "format/pack/open_pack.h"

#include <penstock/error.h>

#include <functional>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "base/hash/hex.h"
#include "base/threads/lazy.h"
#include "base/threads/parallel.h"
#include "format/handle_access.h"
#include "format/pack/packed_layer.h"
#include "format/stored_matrix.h"

namespace penstock::format::pack {
namespace {

[[noreturn]] void fail_for_row(int64_t row, const std::string& folder) {
  throw CorruptData(concat("row ", row,
                           " of obs is in no row file, so obs or a row file is damaged; pack the "
                           "experiment again (overwrite): ",
                           folder));
}

/// Throws if rows are in no file, because they would read as empty.
void check_rows(const PackedLayer& layer, const RowSelection& rows, const std::string& folder) {
  int64_t end = 0;
  const auto check_gap = [&](int64_t next) {
    if (rows.intersects(end, next)) fail_for_row(rows.at(rows.rank(end)), folder);
  };
  for (const auto& file : layer.files) {
    const RowFileFacts& facts = file->facts();
    check_gap(facts.row_begin);
    const auto missing =
        (rows & RowSelection::range(facts.row_begin, facts.row_end)) - file->rows();
    if (!missing.empty()) fail_for_row(missing.at(0), folder);
    end = facts.row_end;
  }
  check_gap(layer.info.row_domain_end);
}

MatrixSourcePtr open_source(const io::StorePtr& store, const std::string& folder,
                            const PackedLayerContents& layer,
                            const std::function<const RowSelection&()>& rows, unsigned threads) {
  std::vector<std::string> paths;
  for (const std::string& name : layer.files) paths.push_back(io::join(folder, name));
  RowFile::announce(*store, paths);
  std::vector<std::shared_ptr<const RowFile>> files(layer.files.size());
  parallel_for(files.size(), threads, [&](size_t i) {
    files[i] = RowFile::open(store, paths[i]);
    if (hex(files[i]->facts().key) != layer.key) {
      throw CorruptData("a row file of another pack: " + files[i]->path());
    }
  });
  MatrixInfo info;
  info.row_domain_end = layer.rows;
  info.column_domain_end = layer.columns;
  info.value_type = layer.value_type;
  info.layout = "packed rows";
  auto opened = make_layer(std::move(files), std::move(info));
  check_rows(*opened, rows(), folder);
  return open_layer(std::move(opened));
}

}  // namespace

PackContents open_contents(const io::Store& store, const std::string& folder,
                           const OpenOptions& options) {
  PackContents contents = PackContents::load(store, folder);
  if (options.timestamp_ms && options.timestamp_ms != contents.timestamp_ms) {
    throw InvalidArgument(concat("a pack holds its experiment as of one time, ",
                                 (contents.timestamp_ms ? std::to_string(*contents.timestamp_ms)
                                                        : std::string("when it was packed")),
                                 "; open it without a timestamp, or pack the experiment as of ",
                                 *options.timestamp_ms, ", ", folder));
  }
  return contents;
}

std::vector<ExpectedFile> files_of(const PackContents& contents, const std::string& folder) {
  std::vector<ExpectedFile> files;
  for (const auto& [path, sum] : contents.tables) {
    files.push_back({io::join(folder, path), sum.bytes});
  }
  for (const PackedMeasurement& measurement : contents.measurements) {
    for (const PackedLayerContents& layer : measurement.layers) {
      const std::string place = layer_path(folder, measurement.name, layer.name);
      for (const std::string& name : layer.files) {
        files.push_back({io::join(place, name), std::nullopt});
      }
    }
  }
  return files;
}

std::string obs_path(std::string_view pack) { return io::join(pack, "obs"); }

std::string var_path(std::string_view pack, std::string_view measurement) {
  return io::join(io::join(io::join(pack, "ms"), measurement), "var");
}

std::string layer_path(std::string_view pack, std::string_view measurement,
                       std::string_view layer) {
  return io::join(io::join(io::join(io::join(pack, "ms"), measurement), "X"), layer);
}

std::shared_ptr<const HandleAccess::MatrixState> open_matrix(const io::StorePtr& store,
                                                             const std::string& folder,
                                                             const PackedLayerContents& layer,
                                                             const DataFrame& obs,
                                                             unsigned threads) {
  const auto rows = [obs, read = std::make_shared<Lazy<RowSelection>>()]() -> const RowSelection& {
    return read->get([&] { return obs.select(""); });
  };
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [=] { return open_source(store, folder, layer, rows, threads); },
      [=] { return std::optional<RowSelection>(rows()); }});
  state->addresses_rows = !store->traits().remote;
  state->path = folder;
  state->shape = {layer.rows, layer.columns};
  state->value_type = layer.value_type;
  state->stored_bytes = layer.stored_bytes;
  state->fragment_count = static_cast<uint32_t>(layer.files.size());
  state->layout = "packed rows";
  return state;
}

}  // namespace penstock::format::pack
