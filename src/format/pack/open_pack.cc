#include "format/pack/open_pack.h"

#include <penstock/error.h>

#include <utility>
#include <vector>

#include "base/parallel.h"
#include "format/pack/packed_layer.h"

namespace penstock::format::pack {
namespace {

MatrixSourcePtr open_source(const io::StorePtr& store, const std::string& folder,
                            const PackedLayerContents& layer, unsigned threads) {
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
  return open_layer(make_layer(std::move(files), std::move(info)));
}

}  // namespace

PackContents open_contents(const io::Store& store, const std::string& folder,
                           const OpenOptions& options) {
  PackContents contents = PackContents::load(store, folder);
  if (options.timestamp_ms && options.timestamp_ms != contents.timestamp_ms) {
    throw InvalidArgument("a pack holds its experiment as of one time, " +
                          (contents.timestamp_ms ? std::to_string(*contents.timestamp_ms)
                                                 : std::string("when it was packed")) +
                          "; open it without a timestamp, or pack the experiment as of " +
                          std::to_string(*options.timestamp_ms) + ", " + folder);
  }
  return contents;
}

std::string obs_path(std::string_view pack) { return io::join(pack, "obs"); }

std::string var_path(std::string_view pack, std::string_view measurement) {
  return io::join(io::join(io::join(pack, "ms"), measurement), "var");
}

std::string layer_path(std::string_view pack, std::string_view measurement,
                       std::string_view layer) {
  return io::join(io::join(io::join(io::join(pack, "ms"), measurement), "X"), layer);
}

std::shared_ptr<const Matrix::State> open_matrix(const io::StorePtr& store,
                                                 const std::string& folder,
                                                 const PackedLayerContents& layer,
                                                 const DataFrame& obs, unsigned threads) {
  auto state = std::make_shared<Matrix::State>(
      Matrix::State::Origin{[=] { return open_source(store, folder, layer, threads); },
                            [obs] { return std::optional<RowSelection>(obs.select("")); }});
  state->addresses_rows = !store->traits().remote;
  state->store = store;
  state->path = folder;
  state->shape = {layer.rows, layer.columns};
  state->value_type = layer.value_type;
  state->stored_bytes = layer.stored_bytes;
  state->fragment_count = static_cast<uint32_t>(layer.files.size());
  state->layout = "packed rows";
  return state;
}

}  // namespace penstock::format::pack
