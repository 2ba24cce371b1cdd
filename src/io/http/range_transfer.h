#pragma once

#include <string>

#include "io/http/http_engine.h"
#include "io/remote/object_source.h"

// A transfer of a range of an object. Checks by HTTP's own rules that the response is the requested
// range of the expected object. HTTP and S3 sources add the address and the meaning of errors.
//
// A response is accepted only if its range, the object's size and ETag, and the length of the body
// are all right. Without an ETag, Last-Modified is compared. A wrong range, status 200 with another
// length, or a body of another length is retried. Status 412, another ETag or another size means
// that the object has changed.

namespace penstock::io {

class RangeTransfer : public Transfer {
 public:
  explicit RangeTransfer(RemoteRead& read) : Transfer(read.out), read_(read) {}

  Verdict judge(const HttpResponse& response) override;
  std::string place() const override;

 protected:
  /// Range, and If-Match with a strong ETag.
  std::vector<HttpField> range_headers() const;
  /// Judges a status other than 2xx, 412 or 416 that a retry cannot help.
  virtual Verdict judge_refusal(const HttpResponse& response) = 0;
  const RemoteRead& read() const noexcept { return read_; }

 private:
  Verdict judge_body(const HttpResponse& response);
  Verdict changed(const std::string& what) const;

  RemoteRead& read_;
};

/// Sets `verdict` to a retry and returns true if there was no response, or one that invites a
/// retry.
bool retry_later(const HttpResponse& response, Verdict& verdict);

/// "HTTP 403 Forbidden".
std::string status_text(int status);

Verdict failed(std::exception_ptr error);

}  // namespace penstock::io
