#pragma once

#include <string>

#include "io/http/http_engine.h"
#include "io/remote/object_source.h"

// A range of an object as a transfer: what HTTP itself says about whether the answer is the range
// of the object that was meant. HTTP and S3 sources add where to ask and what an error means.
//
// A response is taken only when its range, the object's size and ETag, and the length of the body
// are all as they must be; where an ETag is missing Last-Modified counts. A wrong range, 200 with
// another length than asked for, or another length of body is tried again; 412, another ETag or
// size is a changed object.

namespace penstock::io {

class RangeTransfer : public Transfer {
 public:
  explicit RangeTransfer(RemoteRead& read) : Transfer(read.out), read_(read) {}

  Verdict judge(const HttpResponse& response) override;
  std::string place() const override;

 protected:
  /// Range, and If-Match with a strong ETag.
  std::vector<HttpField> range_headers() const;
  /// Of a status that is not 2xx, 412 or 416 and not worth a retry.
  virtual Verdict judge_refusal(const HttpResponse& response) = 0;
  const RemoteRead& read() const noexcept { return read_; }

 private:
  Verdict judge_body(const HttpResponse& response);
  Verdict changed(const std::string& what) const;

  RemoteRead& read_;
};

/// A retry when an answer did not come, or says that a later one may be better; else nothing to
/// say.
bool retry_later(const HttpResponse& response, Verdict& verdict);

/// "HTTP 403 Forbidden".
std::string status_text(int status);

Verdict failed(std::exception_ptr error);

}  // namespace penstock::io
