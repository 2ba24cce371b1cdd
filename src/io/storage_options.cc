#include "io/storage_options.h"

#include <penstock/error.h>

#include <array>
#include <charconv>
#include <optional>

#include "io/http/http_source.h"
#include "io/remote/remote_store.h"
#include "io/s3/s3_source.h"
#include "io/url_secrets.h"

namespace penstock::io {
namespace {

constexpr std::string_view kHeaderPrefix = "header.";

/// Shortest form: 1024, 0.1.
std::string text_of(double number) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

/// Takes options out one by one; those left at the end are unknown. Errors do not show values,
/// because a secret may have been given under another option's name.
class OptionReader {
 public:
  explicit OptionReader(const StorageOptions& options) : left_(options.values) {}

  std::string text(const std::string& name) {
    known_ += (known_.empty() ? "" : ", ") + name;
    const auto found = left_.find(name);
    if (found == left_.end()) return {};
    std::string value = found->second;
    left_.erase(found);
    return value;
  }
  bool flag(const std::string& name) {
    const std::string value = text(name);
    if (value.empty() || value == "false") return false;
    if (value == "true") return true;
    throw InvalidArgument("storage option " + name + " must be true or false");
  }
  double number(const std::string& name, double otherwise, double least, double most) {
    const std::string value = text(name);
    if (value.empty()) return otherwise;
    double number = 0;
    const auto result = std::from_chars(value.data(), value.data() + value.size(), number);
    if (result.ec != std::errc() || result.ptr != value.data() + value.size() ||
        !(number >= least && number <= most)) {
      throw InvalidArgument("storage option " + name + " must be a number from " + text_of(least) +
                            " to " + text_of(most));
    }
    return number;
  }
  std::vector<HttpField> headers() {
    known_ += (known_.empty() ? "" : ", ") + std::string("headers");
    std::vector<HttpField> fields;
    for (auto at = left_.begin(); at != left_.end();) {
      if (!at->first.starts_with(kHeaderPrefix)) {
        ++at;
        continue;
      }
      const std::string name = at->first.substr(kHeaderPrefix.size());
      if (name.empty() || (name + at->second).find_first_of("\r\n:") < name.size() ||
          at->second.find_first_of("\r\n") != std::string::npos) {
        // A whole line may have been given as the name: do not show the part after the colon.
        throw InvalidArgument(
            "a header must have a name without colon or line break and a value without line "
            "break, got the header " +
            name.substr(0, name.find_first_of(":\r\n")));
      }
      fields.emplace_back(name, at->second);
      at = left_.erase(at);
    }
    return fields;
  }
  void finish(const std::string& uri) const {
    if (left_.empty()) return;
    throw InvalidArgument("there is no storage option '" + left_.begin()->first + "' for " + uri +
                          "; " + (known_.empty() ? "it takes none" : "choose from " + known_));
  }

 private:
  std::map<std::string, std::string> left_;
  std::string known_;
};

HttpOptions http_options(OptionReader& reader) {
  HttpOptions options;
  options.max_requests = static_cast<size_t>(
      reader.number("max_requests", static_cast<double>(options.max_requests), 1, 1024));
  options.connect_timeout_seconds =
      reader.number("connect_timeout", options.connect_timeout_seconds, 0.1, 600);
  options.stall_timeout_seconds =
      reader.number("stall_timeout", options.stall_timeout_seconds, 1, 3600);
  options.retry_timeout_seconds =
      reader.number("retry_timeout", options.retry_timeout_seconds, 0, 86'400);
  options.max_attempts =
      static_cast<int>(reader.number("max_attempts", options.max_attempts, 1, 1000));
  return options;
}

S3Options s3_options(OptionReader& reader, const StorageOptions& given) {
  S3Options options;
  options.region = reader.text("region");
  options.endpoint = reader.text("endpoint");
  const std::string style = reader.text("addressing_style");
  if (style == "path") {
    options.addressing = S3Options::Addressing::kPath;
  } else if (style == "virtual") {
    options.addressing = S3Options::Addressing::kVirtual;
  } else if (!style.empty() && style != "auto") {
    throw InvalidArgument("storage option addressing_style must be auto, path or virtual");
  }
  options.anonymous = reader.flag("anonymous");
  options.requester_pays = reader.flag("requester_pays");
  options.credentials.profile = reader.text("profile");
  S3Key& key = options.credentials.given;
  key.access_key_id = reader.text("access_key_id");
  key.secret_access_key = reader.text("secret_access_key");
  key.session_token = reader.text("session_token");
  if (key.access_key_id.empty() != key.secret_access_key.empty()) {
    throw InvalidArgument("access_key_id and secret_access_key go together");
  }
  options.credentials.fallback = given.credentials;
  return options;
}

enum class Kind { kFile, kHttp, kS3, kOther };

Kind kind_of(const std::string& uri) {
  const std::string scheme = scheme_of(uri);
  if (scheme.empty() || scheme == "file") return Kind::kFile;
  if (scheme == "http" || scheme == "https") return Kind::kHttp;
  return scheme == "s3" ? Kind::kS3 : Kind::kOther;
}

}  // namespace

StorePtr store_for(const std::string& uri, const StorageOptions& options) {
  check_no_secrets("uri", uri);
  OptionReader reader(options);
  switch (kind_of(uri)) {
    case Kind::kFile:
      reader.finish(uri);
      return file_store();
    case Kind::kHttp: {
      const HttpOptions http = http_options(reader);
      auto headers = reader.headers();
      reader.finish(uri);
      return std::make_shared<RemoteStore>(
          std::make_shared<HttpSource>(http, uri, std::move(headers)));
    }
    case Kind::kS3:
      return std::make_shared<RemoteStore>(s3_source_for(uri, options));
    case Kind::kOther:
      break;
  }
  throw Unsupported("no store for scheme \"" + scheme_of(uri) +
                    "\"; read are plain paths, file://, http://, https:// and s3://: " + uri);
}

std::shared_ptr<S3Source> s3_source_for(const std::string& uri, const StorageOptions& options) {
  check_no_secrets("uri", uri);
  parse_s3_uri(uri);
  OptionReader reader(options);
  const HttpOptions http = http_options(reader);
  S3Options s3 = s3_options(reader, options);
  reader.finish(uri);
  return std::make_shared<S3Source>(http, std::move(s3));
}

StorePtr store_for(std::string_view uri) { return store_for(std::string(uri), StorageOptions()); }

bool same_store(const std::string& root, const std::string& uri) {
  return kind_of(root) == kind_of(uri);
}

}  // namespace penstock::io
