#include "io/http/range_transfer.h"

#include <penstock/error.h>

namespace penstock::io {
namespace {

Verdict again(std::string reason) { return {Verdict::Kind::kRetry, std::move(reason), 0, nullptr}; }

}  // namespace

Verdict failed(std::exception_ptr error) { return {Verdict::Kind::kFail, "", 0, std::move(error)}; }

std::string status_text(int status) {
  const char* words = "";
  switch (status) {
    case 301:
      words = " Moved Permanently";
      break;
    case 302:
      words = " Found";
      break;
    case 307:
      words = " Temporary Redirect";
      break;
    case 400:
      words = " Bad Request";
      break;
    case 401:
      words = " Unauthorized";
      break;
    case 403:
      words = " Forbidden";
      break;
    case 404:
      words = " Not Found";
      break;
    case 407:
      words = " Proxy Authentication Required";
      break;
    case 412:
      words = " Precondition Failed";
      break;
    case 416:
      words = " Range Not Satisfiable";
      break;
    case 429:
      words = " Too Many Requests";
      break;
    case 500:
      words = " Internal Server Error";
      break;
    case 503:
      words = " Service Unavailable";
      break;
    default:
      break;
  }
  return "HTTP " + std::to_string(status) + words;
}

bool retry_later(const HttpResponse& response, Verdict& verdict) {
  const double after =
      parse_retry_after(response.header("retry-after"), response.header("date")).value_or(0);
  const int status = response.status;
  if (status == 408 || status == 429 || status >= 500) {
    verdict = {Verdict::Kind::kRetry, "the server answers " + status_text(status), after, nullptr};
    return true;
  }
  if (response.failure.empty() || response.too_long) return false;
  if (response.refused) {
    verdict = failed(std::make_exception_ptr(IoError("no connection: " + response.failure)));
    return true;
  }
  verdict = again((response.stalled ? "the transfer stalled: " : "") + response.failure);
  return true;
}

std::vector<HttpField> RangeTransfer::range_headers() const {
  std::vector<HttpField> headers;
  const uint64_t last = read_.offset + read_.out.size() - 1;
  headers.emplace_back("Range",
                       "bytes=" + std::to_string(read_.offset) + "-" + std::to_string(last));
  const std::string& etag = read_.object.etag;
  if (etag.starts_with('"')) headers.emplace_back("If-Match", etag);
  return headers;
}

std::string RangeTransfer::place() const {
  return read_.object.path + ", bytes " + std::to_string(read_.offset) + " to " +
         std::to_string(read_.offset + read_.out.size() - 1);
}

Verdict RangeTransfer::changed(const std::string& what) const {
  return failed(std::make_exception_ptr(IoError("the object changed while it was read (" + what +
                                                "); open the data again: " + place())));
}

Verdict RangeTransfer::judge(const HttpResponse& response) {
  Verdict verdict;
  if (response.status == 412) return changed(status_text(412));
  if (response.status == 416) return changed(status_text(416));
  if (response.status >= 300 && response.status < 500 && response.status != 408 &&
      response.status != 429) {
    return judge_refusal(response);
  }
  if (retry_later(response, verdict)) {
    if (verdict.kind == Verdict::Kind::kFail) {
      verdict.error =
          std::make_exception_ptr(IoError("no connection: " + response.failure + ": " + place()));
    }
    return verdict;
  }
  return judge_body(response);
}

Verdict RangeTransfer::judge_body(const HttpResponse& response) {
  const uint64_t wanted = read_.out.size();
  const std::string_view encoding = response.header("content-encoding");
  if (!encoding.empty() && encoding != "identity" && encoding != "aws-chunked") {
    return failed(std::make_exception_ptr(IoError("the server sends the object encoded as " +
                                                  std::string(encoding) +
                                                  "; it must be served as stored: " + place())));
  }
  const bool whole = read_.offset == 0 && wanted == read_.object.size_bytes;
  if (response.status == 206) {
    const auto range = parse_content_range(response.header("content-range"));
    if (!range) {
      return again("the answer has no usable Content-Range: \"" +
                   std::string(response.header("content-range")) + "\"");
    }
    if (range->range != ByteRange{read_.offset, wanted}) {
      return again("the answer is another range: " + std::string(response.header("content-range")));
    }
    if (range->total != read_.object.size_bytes) {
      return changed("it has " + std::to_string(range->total) + " bytes, not " +
                     std::to_string(read_.object.size_bytes));
    }
  } else if (!whole) {
    return again("the server answers " + status_text(response.status) +
                 " without a range where one was asked for; it must answer range requests");
  }
  if (response.too_long || response.body_bytes != wanted) {
    return again(response.too_long ? "the body is longer than the " + std::to_string(wanted) +
                                         " bytes that were asked for"
                                   : "the body has " + std::to_string(response.body_bytes) +
                                         " bytes, not " + std::to_string(wanted));
  }
  const ObjectVersion version{std::string(response.header("etag")),
                              std::string(response.header("last-modified"))};
  if (!version.agrees_with(read_.object)) {
    return changed(read_.object.etag.empty() || version.etag.empty()
                       ? "it was modified " + version.last_modified
                       : "its ETag is " + version.etag);
  }
  if (read_.seen != nullptr) *read_.seen = version;
  return {};
}

}  // namespace penstock::io
