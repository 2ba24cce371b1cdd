#include <penstock/cache.h>
#include <penstock/error.h>

#include <utility>
#include <vector>

#include "base/threads/mutex.h"
#include "format/cache/cache_folder.h"
#include "format/cache/cached_source.h"
#include "format/handle_access.h"
#include "format/stored_matrix.h"
#include "io/store.h"

namespace penstock {

class Cache::Impl {
 public:
  explicit Impl(const CacheOptions& options)
      : folder(std::make_shared<format::pack::CacheFolder>(io::normalize(options.folder),
                                                           options.limit_bytes)) {}

  /// The source read through the cache: the same one as long as it is used, so that what loaders
  /// keep of it in memory is shared.
  format::MatrixSourcePtr cached(const format::MatrixSourcePtr& source) PENSTOCK_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::erase_if(made_, [](const auto& pair) { return pair.second.expired(); });
    for (const auto& [of, made] : made_) {
      if (of.lock() != source) continue;
      if (auto cached = made.lock()) return cached;
    }
    auto cached = format::pack::cached_source(source, folder);
    made_.emplace_back(source, cached);
    return cached;
  }

  const std::shared_ptr<format::pack::CacheFolder> folder;

 private:
  using WeakSource = std::weak_ptr<const format::MatrixSource>;
  Mutex mutex_;
  std::vector<std::pair<WeakSource, WeakSource>> made_ PENSTOCK_GUARDED_BY(mutex_);
};

Cache::Cache(CacheOptions options) : impl_(std::make_shared<Impl>(options)) {
  if (options.folder.empty()) throw InvalidArgument("a cache needs the name of a folder");
}

Cache::~Cache() = default;

Matrix Cache::through(const Matrix& matrix) {
  matrix.expect_rows();
  if (matrix.addresses_rows()) return matrix;  // a cache would add nothing
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [matrix, impl = impl_] {
        const auto& source = HandleAccess::source(matrix);
        return with_place([&] { return impl->cached(source); }, [&] { return matrix.uri(); });
      },
      [matrix] {
        const RowSelection* rows = HandleAccess::stored_rows(matrix);
        return rows == nullptr ? std::nullopt : std::optional<RowSelection>(*rows);
      }});
  state->path = matrix.uri();
  state->shape = matrix.shape();
  state->value_type = matrix.value_type();
  state->stored_bytes = matrix.stored_bytes();
  state->fragment_count = matrix.fragment_count();
  state->layout = matrix.layout();
  return HandleAccess::same_cells(HandleAccess::matrix(std::move(state)), matrix);
}

std::string Cache::problem() const { return impl_->folder->problem(); }

}  // namespace penstock
