#include <penstock/error.h>
#include <penstock/pack.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "base/concat.h"
#include "base/hash/hex.h"
#include "format/handle_access.h"
#include "format/pack/layer_writer.h"
#include "format/pack/open_pack.h"
#include "format/pack/pack_contents.h"
#include "format/pack/pack_folder.h"
#include "format/pack/row_file_plan.h"
#include "format/pack/written_files.h"
#include "io/storage_options.h"
#include "io/store.h"

namespace penstock {
namespace {

using namespace format::pack;

constexpr int64_t kMostColumns = std::numeric_limits<int32_t>::max();

template <typename Names>
bool among(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Resolves links as far as the path exists.
std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

struct PlannedLayer {
  std::string measurement, name;
  Matrix matrix;
  RowFileFacts facts;  ///< without a range of rows
  std::vector<RowFilePlan> files;

  const format::MatrixSourcePtr& source() const { return HandleAccess::source(matrix); }
  std::string place() const { return measurement + "/X/" + name; }
  uint64_t rows() const { return files.empty() ? 0 : files.back().end - files.front().first; }
};

/// All columns; if the domain has no end (older releases), those listed in var.
uint64_t columns_of(const Matrix& matrix, const DataFrame& var) {
  const int64_t end = matrix.shape().second;
  if (end <= kMostColumns) return static_cast<uint64_t>(end);
  const RowSelection known = var.select("");
  if (known.empty()) return 0;
  const int64_t last = known.at(known.size() - 1);
  if (last >= kMostColumns) {
    throw Unsupported(concat("too many columns to pack: ", last, ", ", matrix.uri()));
  }
  return static_cast<uint64_t>(last) + 1;
}

std::vector<PlannedLayer> plan_layers(const Experiment& source, const PackOptions& options) {
  std::vector<PlannedLayer> layers;
  std::vector<std::string> seen;
  for (const std::string& measurement : options.measurements) source.var(measurement);  // NotFound
  for (const std::string& measurement : source.measurements()) {
    if (!options.measurements.empty() && !among(options.measurements, measurement)) continue;
    for (const std::string& name : source.layers(measurement)) {
      seen.push_back(name);
      if (!options.layers.empty() && !among(options.layers, name)) continue;
      if (!plain_name(measurement) || !plain_name(name)) {
        throw Unsupported("names that no folder can have: measurement '" + measurement +
                          "', layer '" + name + "', " + source.uri());
      }
      const Matrix matrix = source.x(measurement, name);
      if (HandleAccess::joined(matrix) != 0) {
        throw InvalidArgument("pack each experiment of a join, then join the packs; the join is " +
                              source.uri());
      }
      PlannedLayer layer{measurement, name, matrix, {}, {}};
      layer.facts.column_count = columns_of(matrix, source.var(measurement));
      layer.facts.value_type = layer.source()->info().value_type;
      layers.push_back(std::move(layer));
    }
  }
  for (const std::string& wanted : options.layers) {
    if (among(seen, wanted)) continue;
    std::string names;
    for (const std::string& name : seen) names += (names.empty() ? "" : ", ") + name;
    throw NotFound("there is no layer '" + wanted + "'" +
                   (names.empty() ? " nor any other" : "; choose from " + names) + ", in " +
                   source.uri());
  }
  if (layers.empty()) throw InvalidArgument("there is no layer of X to pack, in " + source.uri());
  return layers;
}

}  // namespace

class Packer::Impl {
 public:
  Impl(const Experiment& source, std::string destination, PackOptions options)
      : source_(source),
        options_(std::move(options)),
        store_(io::store_for(source.uri(), source.options().storage)) {
    layers_ = plan_layers(source_, options_);
    if (options_.part && options_.part->number >= options_.part->count) {
      throw InvalidArgument(concat("there is no part ", options_.part->number, " of ",
                                   options_.part->count, ", counted from 0"));
    }
    check_outside(destination);
    const RowSelection all = source_.obs().select("");
    rows_ = options_.rows ? *options_.rows & all : all;
    if (options_.rows && rows_.size() != options_.rows->size()) {
      throw InvalidArgument(concat(options_.rows->size() - rows_.size(),
                                   " of the rows to pack are not in obs, ", source_.uri()));
    }
    if (rows_.empty()) throw InvalidArgument("no cell is selected to pack, of " + source_.uri());
    if (rows_.size() != HandleAccess::stored(source_.obs())->copied_rows()) contents_.rows = rows_;
    if (options_.threads == 0) options_.threads = source_.options().threads;
    contents_.source = source_.uri();
    contents_.timestamp_ms = source_.options().timestamp_ms;
    contents_.metadata = source_.metadata();
    content_ = content();
    const std::string unknown = unknown_content();
    contents_.key = hex(content_key(content_ + unknown));
    if (!unknown.empty()) content_.clear();
    plan_files();
    folder_ = std::make_unique<PackFolder>(std::move(destination), contents_.key,
                                           options_.overwrite, folder_use());
    complete_ = folder_->complete();
    if (complete_) progress_.rows_done = progress_.rows_kept = progress_.rows_total;
  }

  void begin() {
    if (std::exchange(begun_, true) || complete_) return;
    if (!options_.part) copy_tables();
    if (options_.part && options_.part->joins) return;
    for (const PlannedLayer& layer : layers_) folder_->make_below(folder_of(layer));
  }

  void close() {
    complete_ = true;
    writer_.reset();
    folder_.reset();
  }

  const std::string& key() const noexcept { return contents_.key; }

  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const PlannedLayer& layer : layers_) {
      const std::string folder = layer_path("", layer.measurement, layer.name).substr(1);
      for (const RowFilePlan& file : layer.files) paths.push_back(io::join(folder, file.name));
    }
    return paths;
  }

  bool stored_by_columns() const {
    return std::any_of(layers_.begin(), layers_.end(), [](const PlannedLayer& layer) {
      return layer.source()->info().stored_by_columns;
    });
  }

  bool advance(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    do {
      if (complete_) return false;
      step();
    } while (Clock::now() < end);
    return !complete_;
  }

  PackProgress progress() const {
    PackProgress now = progress_;
    if (writer_ != nullptr) {
      now.rows_done += writer_->rows_done();
      now.rows_kept += writer_->rows_kept();
      now.bytes_written += writer_->bytes_written();
      const format::PassProgress passes = writer_->passes();
      now.pass = passes.pass;
      now.pass_share = passes.share;
      if (passes.passes != 0) now.passes[now.layer] = passes.passes;
    }
    return now;
  }

 private:
  /// Throws if the destination lies in an array that is copied, as it would be copied into itself.
  void check_outside(const std::string& destination) const {
    if (store_->traits().remote) return;
    std::vector<std::string> arrays = {source_.obs().uri()};
    for (const PlannedLayer& layer : layers_) {
      arrays.push_back(source_.var(layer.measurement).uri());
      arrays.push_back(layer.matrix.uri());
    }
    const std::string place = io::join(real_path(destination), "");
    for (const std::string& array : arrays) {
      if (!place.starts_with(io::join(real_path(array), ""))) continue;
      throw InvalidArgument("the destination lies within what is packed, " + array + ": " +
                            destination);
    }
  }

  FolderUse folder_use() const {
    if (!options_.part) return FolderUse::kAlone;
    return options_.part->joins ? FolderUse::kJoined : FolderUse::kPart;
  }

  /// Plans the files of each layer, and leaves those of the part.
  void plan_files() {
    uint64_t all = 0;
    for (PlannedLayer& layer : layers_) {
      layer.facts.key = content_key(contents_.key + " " + layer.place());
      layer.files = plan_row_files(*layer.source(), rows_, layer.facts, options_.rows_per_file);
      all += layer.files.size();
      if (!options_.part) progress_.rows_total += rows_.size();
    }
    if (!options_.part) return;
    const auto [number, count, joins] = *options_.part;
    if (content_.empty()) {
      throw Unsupported(
          "it cannot be packed in parts, as nothing tells whether each part reads the "
          "same: " +
          source_.uri());
    }
    // Without the products of large numbers: the first `more` parts have a file more.
    const uint64_t each = all / count, more = all % count;
    const uint64_t begin = number * each + std::min(number, more);
    const uint64_t end = begin + each + (number < more ? 1 : 0);
    uint64_t before = 0;
    for (PlannedLayer& layer : layers_) {
      const uint64_t files = layer.files.size();
      const auto at = [&](uint64_t file) {
        const uint64_t place = std::clamp(file, before, before + files) - before;
        return layer.files.begin() + static_cast<ptrdiff_t>(place);
      };
      layer.files = {std::make_move_iterator(at(begin)), std::make_move_iterator(at(end))};
      before += files;
      progress_.rows_total += layer.rows();
    }
  }

  std::string folder_of(const PlannedLayer& layer) const {
    return layer_path(folder_->path(), layer.measurement, layer.name);
  }

  /// Text that no other pack has, if the content of the source is not known; else none.
  std::string unknown_content() const {
    bool known = !source_.obs().content().empty();
    for (const PlannedLayer& layer : layers_) {
      known = known && !source_.var(layer.measurement).content().empty() &&
              !layer.source()->content().empty();
    }
    if (known) return {};
    std::random_device random;
    return concat("unknown ", random(), " ", random(), " ", random(), " ", random());
  }

  std::string content() const {
    std::string text = "penstock pack " + std::to_string(kPackVersion) + "\nrows " +
                       std::to_string(rows_.fingerprint()) + " of " + std::to_string(rows_.size()) +
                       ", " + std::to_string(options_.rows_per_file) + " a file\ntimestamp " +
                       (contents_.timestamp_ms ? std::to_string(*contents_.timestamp_ms) : "none") +
                       "\nobs " + source_.obs().content();
    for (const PlannedLayer& layer : layers_) {
      text += "layer " + layer.measurement + " " + layer.name + "\nvar " +
              source_.var(layer.measurement).content() + layer.source()->content();
    }
    for (const auto& [name, value] : contents_.metadata) {
      text += "metadata " + std::to_string(name.size()) + " " + name + " " +
              std::to_string(value.size()) + " " + value + "\n";
    }
    return text;
  }

  void step() {
    if (writer_ == nullptr) {
      // A part may have no file of a layer.
      while (options_.part && layer_ != layers_.size() && layers_[layer_].files.empty()) ++layer_;
      if (layer_ == layers_.size()) return finish();
      begin_layer();
    }
    if (options_.part) folder_->check_still_there();
    if (writer_->step()) return;
    const PackProgress now = progress();
    contents_of(layers_[layer_].measurement)
        .layers.push_back(writer_->contents(layers_[layer_].name));
    writer_.reset();
    progress_ = now;
    progress_.pass = 0;
    progress_.pass_share = 0;
    ++layer_;
  }

  void begin_layer() {
    begin();
    const PlannedLayer& layer = layers_[layer_];
    progress_.layer = layer.place();
    writer_ = std::make_unique<LayerWriter>(
        layer.source(), rows_, layer.facts, layer.files, folder_of(layer),
        format::RowBandOptions{options_.memory_budget, options_.threads});
  }

  PackedMeasurement& contents_of(const std::string& name) {
    for (PackedMeasurement& measurement : contents_.measurements) {
      if (measurement.name == name) return measurement;
    }
    return contents_.measurements.emplace_back(PackedMeasurement{name, {}});
  }

  void copy_tables() {
    copy_table(source_.obs(), obs_path(folder_->path()));
    for (const PlannedLayer& layer : layers_) {
      copy_table(source_.var(layer.measurement), var_path(folder_->path(), layer.measurement));
    }
  }

  void copy_table(const DataFrame& table, const std::string& path) {
    const std::string place = path.substr(folder_->path().size() + 1);
    for (const auto& [file, sum] : HandleAccess::stored(table)->copy_to(path)) {
      contents_.tables[io::join(place, file)] = sum;
    }
  }

  /// Throws if X was written to meanwhile: its rows would be of different times.
  void expect_unchanged() const {
    if (content_.empty() || content() == content_) return;
    throw IoError(
        "the source was written to while it was packed: open the experiment again and pack that, " +
        source_.uri());
  }

  void finish() {
    expect_unchanged();
    if (!options_.part) {
      write_file(io::join(folder_->path(), kContentsName), contents_.to_json());
      folder_->finish();
    }
    complete_ = true;
  }

  Experiment source_;
  PackOptions options_;
  io::StorePtr store_;
  std::vector<PlannedLayer> layers_;
  RowSelection rows_;
  PackContents contents_;
  std::string content_;  ///< of the source when packing began; empty if it is not known
  std::unique_ptr<PackFolder> folder_;
  bool begun_ = false;
  bool complete_ = false;  ///< the pack, or the part
  PackProgress progress_;  ///< of the finished layers
  size_t layer_ = 0;
  std::unique_ptr<LayerWriter> writer_;
};

Packer::Packer(const Experiment& source, std::string destination, PackOptions options)
    : impl_(std::make_unique<Impl>(source, std::move(destination), std::move(options))) {}

Packer::~Packer() = default;

void Packer::begin() { impl_->begin(); }

void Packer::close() { impl_->close(); }

const std::string& Packer::key() const { return impl_->key(); }

std::vector<std::string> Packer::files() const { return impl_->files(); }

bool Packer::stored_by_columns() const { return impl_->stored_by_columns(); }

bool Packer::advance(double seconds) { return impl_->advance(seconds); }

PackProgress Packer::progress() const { return impl_->progress(); }

}  // namespace penstock
