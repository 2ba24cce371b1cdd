#include "io/http/http_source.h"

#include <penstock/error.h>

#include <algorithm>
#include <optional>

#include "io/http/index_manifest.h"
#include "io/http/range_transfer.h"
#include "io/store.h"

namespace penstock::io {
namespace {

constexpr int kFoldersUp = 6;  // an experiment of a release lies a few folders below its manifest

/// Names may have characters that a URL may not; what is escaped already stays so.
std::string url_of(const std::string& path) {
  std::string url;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 127 || c == '"' || c == '<' || c == '>' || c == '#' || c == '?') {
      url += percent_encode({&c, 1}, false);
    } else {
      url += c;
    }
  }
  return url;
}

Verdict refusal(const HttpResponse& response, const std::string& place) {
  const std::string what = "the server answers " + status_text(response.status);
  if (response.status == 404 || response.status == 410) {
    return failed(std::make_exception_ptr(NotFound(what + ": " + place)));
  }
  if (response.status == 401 || response.status == 403) {
    return failed(
        std::make_exception_ptr(IoError(what +
                                        "; check the address, and headers such as Authorization in "
                                        "storage_options: " +
                                        place)));
  }
  return failed(std::make_exception_ptr(IoError(what + ": " + place)));
}

class HttpRange final : public RangeTransfer {
 public:
  HttpRange(RemoteRead& read, const std::vector<HttpField>& headers)
      : RangeTransfer(read), headers_(headers) {}

  HttpRequest prepare() override {
    HttpRequest request;
    request.url = url_of(read().object.path);
    request.headers = range_headers();
    request.headers.insert(request.headers.end(), headers_.begin(), headers_.end());
    request.follow_redirects = true;
    return request;
  }

 private:
  Verdict judge_refusal(const HttpResponse& response) override {
    return refusal(response, place());
  }
  const std::vector<HttpField>& headers_;
};

/// A whole text; none where there is none, or where a server hides that by 403.
class HttpText final : public Transfer {
 public:
  HttpText(std::string url, const std::vector<HttpField>& headers)
      : url_(std::move(url)), headers_(headers) {}

  HttpRequest prepare() override {
    HttpRequest request;
    request.url = url_of(url_);
    request.headers = headers_;
    request.follow_redirects = true;
    return request;
  }
  Verdict judge(const HttpResponse& response) override {
    Verdict verdict;
    status_ = response.status;
    if (response.status == 404 || response.status == 410) return {};
    if (response.status == 401 || response.status == 403) return {};
    if (retry_later(response, verdict)) {
      if (verdict.kind == Verdict::Kind::kFail) {
        verdict.error =
            std::make_exception_ptr(IoError("no connection: " + response.failure + ": " + url_));
      }
      return verdict;
    }
    if (response.status < 200 || response.status >= 300) return refusal(response, url_);
    if (response.too_long) {
      return failed(std::make_exception_ptr(IoError("the answer is too long: " + url_)));
    }
    text_ = response.text;
    return {};
  }
  std::string place() const override { return url_; }
  const std::optional<std::string>& text() const noexcept { return text_; }
  bool forbidden() const noexcept { return status_ == 401 || status_ == 403; }

 private:
  const std::string url_;
  const std::vector<HttpField>& headers_;
  std::optional<std::string> text_;
  int status_ = 0;
};

std::string origin_of(const std::string& uri) {
  const auto parts = split_url(uri);
  return parts ? parts->scheme + "://" + parts->host : std::string();
}

}  // namespace

HttpSource::HttpSource(const HttpOptions& options, const std::string& uri,
                       std::vector<HttpField> headers)
    : engine_(options), origin_(origin_of(uri)), headers_(std::move(headers)) {
  if (origin_.empty()) throw InvalidArgument("not a URL of a file on a server: " + uri);
}

const std::vector<HttpField>& HttpSource::headers_for(const std::string& path) const {
  static const std::vector<HttpField> none;
  return origin_of(path) == origin_ ? headers_ : none;
}

std::vector<RemoteObject> HttpSource::index_of(const std::string& directory) const {
  std::string folder = directory;
  bool forbidden = false;
  for (int up = 0; up < kFoldersUp; ++up) {
    HttpText transfer(join(folder, kIndexName), headers_for(folder));
    engine_.get().run(transfer);
    if (transfer.text()) return parse_index(*transfer.text(), folder);
    forbidden |= transfer.forbidden();
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos || folder.compare(0, slash + 1, "https://") == 0 ||
        folder.compare(0, slash + 1, "http://") == 0) {
      break;
    }
    folder.resize(slash);
  }
  if (forbidden) {
    throw IoError(
        "the server forbids to read " + std::string(kIndexName) +
        ", or it is not there; check headers such as Authorization in storage_options, or "
        "run `penstock index DIR` on the folder that is served: " +
        directory);
  }
  throw Unsupported("a web server cannot list files, and there is no " + std::string(kIndexName) +
                    "; run `penstock index DIR` on the folder that is served and copy the file "
                    "it writes beside it: " +
                    directory);
}

RemoteListing HttpSource::list_tree(const std::string& directory, size_t /*max_objects*/) const {
  RemoteListing listing;
  listing.objects = index_of(directory);
  return listing;
}

RemoteListing HttpSource::list_folder(const std::string& directory) const {
  RemoteListing listing;
  const std::string prefix = directory + "/";
  for (RemoteObject& object : index_of(directory)) {
    if (!object.path.starts_with(prefix)) continue;
    const size_t slash = object.path.find('/', prefix.size());
    if (slash == std::string::npos) {
      listing.objects.push_back(std::move(object));
    } else if (std::string folder = object.path.substr(0, slash);
               std::find(listing.folders.begin(), listing.folders.end(), folder) ==
               listing.folders.end()) {
      listing.folders.push_back(std::move(folder));
    }
  }
  return listing;
}

void HttpSource::read(std::span<RemoteRead> reads) const {
  std::vector<HttpRange> ranges;
  ranges.reserve(reads.size());
  std::vector<Transfer*> transfers;
  for (RemoteRead& read : reads) {
    ranges.emplace_back(read, headers_for(read.object.path));
    transfers.push_back(&ranges.back());
  }
  engine_.get().run(transfers);
}

}  // namespace penstock::io
