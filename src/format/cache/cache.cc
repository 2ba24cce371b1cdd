#include <penstock/cache.h>
#include <penstock/error.h>

#include <utility>

#include "format/cache/cache_folder.h"
#include "format/cache/cached_source.h"
#include "format/handle_access.h"
#include "format/soma/matrix.h"
#include "io/store.h"

namespace penstock {

class Cache::Impl {
 public:
  explicit Impl(const CacheOptions& options)
      : folder(std::make_shared<format::pack::CacheFolder>(io::normalize(options.folder),
                                                           options.limit_bytes)) {}

  std::shared_ptr<format::pack::CacheFolder> folder;
};

Cache::Cache(CacheOptions options) : impl_(std::make_shared<Impl>(options)) {
  if (options.folder.empty()) throw InvalidArgument("a cache needs the name of a folder");
}

Cache::~Cache() = default;

Matrix Cache::through(const Matrix& matrix) {
  if (matrix.addresses_rows()) return matrix;  // a cache would add nothing
  auto state = std::make_shared<HandleAccess::MatrixState>(HandleAccess::MatrixState::Origin{
      [matrix, folder = impl_->folder] {
        return format::pack::cached_source(HandleAccess::source(matrix), folder);
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
