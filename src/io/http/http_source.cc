#include "io/http/http_source.h"

#include <penstock/error.h>

#include <optional>
#include <string_view>

#include "io/http/http_message.h"
#include "io/http/index_manifest.h"
#include "io/http/range_transfer.h"
#include "io/http/redirect.h"
#include "io/store.h"
#include "io/url_secrets.h"
#include "io/whole_files.h"

namespace penstock::io {
namespace {

/// How far above the user's address an index is looked for: an experiment is a few folders below
/// the index of its release.
constexpr int kFoldersUp = 6;

/// Parsing more would need gigabytes.
constexpr size_t kMaxIndexBytes = size_t{256} << 20;

Verdict again() { return {Verdict::Kind::kAgain, "", 0, nullptr}; }

constexpr const char* kWithheld =
    "the headers of storage_options are sent to the server in the address alone; give the address "
    "that it redirects to if that needs them";

/// `withheld`: a redirect led to an address that does not get the user's headers.
std::string what_to_check(bool withheld) {
  return withheld ? kWithheld
                  : "check the address, and headers such as Authorization in storage_options";
}

Verdict refusal(const HttpResponse& response, const std::string& place, bool withheld) {
  std::string what = "the server answers " + status_text(response.status);
  if (const auto location = response.header("location"); !location.empty()) {
    what += ", to " + shown_address(location);
  }
  if (response.status == 404 || response.status == 410) {
    return failed(std::make_exception_ptr(NotFound(what + ": " + place)));
  }
  if (response.status == 401 || response.status == 403) {
    return failed(
        std::make_exception_ptr(IoError(what + "; " + what_to_check(withheld) + ": " + place)));
  }
  return failed(std::make_exception_ptr(IoError(what + ": " + place)));
}

/// Address and headers of a request, redirects included.
class Target {
 public:
  Target(std::string url, const std::vector<HttpField>& headers)
      : url_(std::move(url)), headers_(headers) {}

  HttpRequest request(std::vector<HttpField> headers) const {
    HttpRequest request;
    request.url = url_.url();
    request.headers = std::move(headers);
    if (url_.in_origin()) {
      request.headers.insert(request.headers.end(), headers_.begin(), headers_.end());
    }
    return request;
  }
  bool follow(const HttpResponse& response, const std::string& place) {
    return url_.follow(response, place);
  }
  /// Another attempt starts at the first address.
  Verdict judged(Verdict verdict) {
    if (verdict.kind == Verdict::Kind::kRetry) {
      verdict.reason += url_.note();
      url_.restart();
    }
    return verdict;
  }
  bool withheld() const { return !headers_.empty() && !url_.in_origin(); }
  std::string note() const { return url_.note(); }

 private:
  RedirectedUrl url_;
  const std::vector<HttpField>& headers_;
};

class HttpRange final : public RangeTransfer {
 public:
  HttpRange(RemoteRead& read, std::string url, const std::vector<HttpField>& headers)
      : RangeTransfer(read), target_(std::move(url), headers) {}

  HttpRequest prepare() override { return target_.request(range_headers()); }
  Verdict judge(const HttpResponse& response) override {
    if (target_.follow(response, place())) return again();
    return target_.judged(RangeTransfer::judge(response));
  }
  std::string place() const override { return RangeTransfer::place() + target_.note(); }

 private:
  Verdict judge_refusal(const HttpResponse& response) override {
    return refusal(response, place(), target_.withheld());
  }
  Target target_;
};

/// The index of a folder; none if it does not exist. Some servers answer 403 for missing files.
class HttpIndex final : public Transfer {
 public:
  HttpIndex(std::string url, const std::vector<HttpField>& headers)
      : url_(std::move(url)), target_(url_, headers) {}

  HttpRequest prepare() override {
    HttpRequest request = target_.request({});
    request.max_text_bytes = kMaxIndexBytes;
    return request;
  }
  Verdict judge(const HttpResponse& response) override {
    if (target_.follow(response, place())) return again();
    return target_.judged(judge_answer(response));
  }
  std::string place() const override { return url_ + target_.note(); }
  const std::optional<std::string>& text() const noexcept { return text_; }
  bool forbidden() const noexcept { return status_ == 401 || status_ == 403; }
  /// The address of a redirect that does not get the user's headers; empty if there was none.
  std::string withheld() const { return target_.withheld() ? target_.note() : std::string(); }

 private:
  Verdict judge_answer(const HttpResponse& response) {
    Verdict verdict;
    status_ = response.status;
    if (response.status == 404 || response.status == 410) return {};
    if (response.status == 401 || response.status == 403) return {};
    if (retry_later(response, verdict)) {
      if (verdict.kind == Verdict::Kind::kFail) {
        verdict.error =
            std::make_exception_ptr(IoError("no connection: " + response.failure + ": " + place()));
      }
      return verdict;
    }
    if (response.status < 200 || response.status >= 300) {
      return refusal(response, place(), target_.withheld());
    }
    if (response.too_long) {
      return failed(std::make_exception_ptr(
          IoError("the index is longer than 256 MiB, about 1.5 million files; run `penstock index "
                  "DIR` on each experiment instead of the folder above them: " +
                  place())));
    }
    text_ = response.text;
    return {};
  }

  const std::string url_;
  Target target_;
  std::optional<std::string> text_;
  int status_ = 0;
};

/// The first byte of a file, for its size. A server that does not know ranges sends all of it,
/// which is not waited for.
class HttpFirstByte final : public Transfer {
 public:
  HttpFirstByte(std::string url, const std::vector<HttpField>& headers)
      : url_(std::move(url)), target_(url_, headers) {}

  HttpRequest prepare() override {
    HttpRequest request = target_.request({{"Range", "bytes=0-0"}});
    request.max_text_bytes = 1;
    return request;
  }
  Verdict judge(const HttpResponse& response) override {
    if (target_.follow(response, place())) return again();
    Verdict verdict;
    if (!response.too_long && retry_later(response, verdict)) return target_.judged(verdict);
    if (response.status == 200) {
      return failed(std::make_exception_ptr(
          Unsupported("the server sends the whole file where a part is asked for; it must answer "
                      "range requests: " +
                      place())));
    }
    const auto range = parse_content_range(response.header("content-range"));
    if (response.status == 206 && range) {
      found_ = RemoteObject{"", range->total, std::string(response.header("etag")),
                            std::string(response.header("last-modified"))};
    }
    return {};
  }
  std::string place() const override { return url_ + target_.note(); }
  const std::optional<RemoteObject>& found() const noexcept { return found_; }

 private:
  const std::string url_;
  Target target_;
  std::optional<RemoteObject> found_;
};

// An index above the address has plain names, but the address may have escaped ones.
std::vector<RemoteObject> with_address(std::vector<RemoteObject> objects, const std::string& folder,
                                       const std::string& address) {
  if (!address.starts_with(folder + "/")) return objects;
  const std::string as_named = folder + percent_decode(address.substr(folder.size()));
  if (as_named == address) return objects;
  for (RemoteObject& object : objects) {
    if (object.path.starts_with(as_named + "/")) object.path.replace(0, as_named.size(), address);
  }
  return objects;
}

}  // namespace

HttpSource::HttpSource(const HttpOptions& options, const std::string& uri,
                       std::vector<HttpField> headers)
    : engine_(options),
      root_(normalize(uri)),
      origin_(origin_of(uri)),
      headers_(std::move(headers)) {
  if (origin_.empty()) throw InvalidArgument("not a URL of a file on a server: " + uri);
}

// The user's address is a URL and may be escaped. Names below it are plain and may have characters
// that a URL must escape.
std::string HttpSource::url_of(const std::string& path) const {
  const bool below = path.starts_with(root_) && path.compare(root_.size(), 1, "/") == 0;
  const size_t names = below ? root_.size() : path.size();
  std::string url;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto byte = static_cast<unsigned char>(path[i]);
    if (byte <= ' ' || byte >= 127 || (path[i] == '%' && i >= names) ||
        std::string_view("\"<>#?").find(path[i]) != std::string_view::npos) {
      url += percent_encode({&path[i], 1}, false);
    } else {
      url += path[i];
    }
  }
  return url;
}

const std::vector<HttpField>& HttpSource::headers_for(const std::string& url) const {
  static const std::vector<HttpField> none;
  return origin_of(url) == origin_ ? headers_ : none;
}

std::vector<RemoteObject> HttpSource::index_of(const std::string& directory) const {
  std::string folder = directory;
  bool forbidden = false;
  std::string withheld;
  for (int up = 0; up < kFoldersUp;) {
    if (!folder.starts_with(root_ + "/")) ++up;
    const std::string url = url_of(join(folder, kIndexName));
    HttpIndex transfer(url, headers_for(url));
    engine_.get().run(transfer);
    if (transfer.text()) return with_address(parse_index(*transfer.text(), folder), folder, root_);
    forbidden |= transfer.forbidden();
    if (withheld.empty()) withheld = transfer.withheld();
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos || folder.compare(0, slash + 1, "https://") == 0 ||
        folder.compare(0, slash + 1, "http://") == 0) {
      break;
    }
    folder.resize(slash);
  }
  if (forbidden) {
    throw IoError("the server forbids to read " + std::string(kIndexName) +
                  ", or it is not there; " + what_to_check(!withheld.empty()) +
                  ", or run `penstock index DIR` on the folder that is served: " + directory +
                  withheld);
  }
  throw Unsupported("a web server cannot list files, and there is no " + std::string(kIndexName) +
                    "; run `penstock index DIR` on the folder that is served and copy the file "
                    "it writes beside it" +
                    (withheld.empty() ? "" : std::string("; ") + kWithheld) + ": " + directory +
                    withheld);
}

RemoteListing HttpSource::list_tree(const std::string& directory, size_t /*max_objects*/) const {
  RemoteListing listing;
  listing.objects = index_of(directory);
  return listing;
}

// The index has all objects.
RemoteListing HttpSource::list_folder(const std::string& directory) const {
  RemoteListing listing = list_tree(directory, 0);
  listing.whole_tree = true;
  return listing;
}

std::optional<RemoteObject> HttpSource::find_file(const std::string& path) const {
  if (!is_named_whole_file(path)) return std::nullopt;
  const std::string url = url_of(path);
  HttpFirstByte transfer(url, headers_for(url));
  engine_.get().run(transfer);
  std::optional<RemoteObject> found = transfer.found();
  if (found) found->path = path;
  return found;
}

void HttpSource::read(std::span<RemoteRead> reads) const {
  std::vector<HttpRange> ranges;
  ranges.reserve(reads.size());
  std::vector<Transfer*> transfers;
  for (RemoteRead& read : reads) {
    const std::string url = url_of(read.object.path);
    ranges.emplace_back(read, url, headers_for(url));
    transfers.push_back(&ranges.back());
  }
  engine_.get().run(transfers);
}

}  // namespace penstock::io
