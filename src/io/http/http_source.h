#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/http/http_engine.h"
#include "io/remote/object_source.h"

// Files on a plain web server: ranges by GET, names and sizes from the manifest that
// `penstock index` wrote into the folder or one above it. A file that is a whole data set needs
// none.

namespace penstock::io {

class HttpSource final : public ObjectSource {
 public:
  /// `headers` (a token, say) are sent only to the origin of `uri`, wherever redirects lead.
  HttpSource(const HttpOptions& options, const std::string& uri, std::vector<HttpField> headers);

  RemoteListing list_tree(const std::string& directory, size_t max_objects) const override;
  RemoteListing list_folder(const std::string& directory) const override;
  /// Asks for the first byte of a path that ends as an h5ad file or a zip archive does.
  std::optional<RemoteObject> find_file(const std::string& path) const override;
  void read(std::span<RemoteRead> reads) const override;
  RemoteCounts counts() const override { return engine_.get().counts(); }

 private:
  std::vector<RemoteObject> index_of(const std::string& directory) const;

  std::string url_of(const std::string& path) const;
  const std::vector<HttpField>& headers_for(const std::string& url) const;

  HttpEnginePerProcess engine_;
  const std::string root_;    ///< the address that the user gave
  const std::string origin_;  ///< scheme, host and port
  const std::vector<HttpField> headers_;
};

}  // namespace penstock::io
