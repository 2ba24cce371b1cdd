#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "io/http/http_message.h"
#include "io/http/index_manifest.h"

// A small web server for tests: objects in memory, ranges, ETags, a manifest at the root, and
// ListObjectsV2 for queries that ask for a listing. Each connection has a thread and answers one
// request at a time. `before` may answer first, to misbehave.

namespace penstock::io {

class LoopbackServer {
 public:
  struct Request {
    std::string path, query;
    std::vector<HttpField> headers;
  };
  struct Answer {
    std::string head;  ///< status line and fields, without the last empty line
    std::string body;
    bool close = false;  ///< close the connection after sending head and body
  };

  LoopbackServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(listener_, 64);
    socklen_t length = sizeof(address);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept(); });
  }

  ~LoopbackServer() {
    stop_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    std::vector<std::thread> serving;
    {
      const MutexLock lock(mutex_);
      for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
      serving.swap(serving_);
    }
    for (std::thread& thread : serving) thread.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  void put(const std::string& path, const std::string& bytes) {
    const MutexLock lock(mutex_);
    objects_[path] = bytes;
  }
  /// Called first for each request; its answer is used if it has a head or closes.
  void set_before(std::function<Answer(const Request&, int number)> before) {
    const MutexLock lock(mutex_);
    before_ = std::move(before);
  }
  int requests() const { return requests_; }
  int connections() const { return connections_; }  ///< made until now

 private:
  void accept() {
    while (!stop_) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) continue;
      const MutexLock lock(mutex_);
      if (stop_) {
        ::close(connection);
        return;
      }
      ++connections_;
      open_.insert(connection);
      serving_.emplace_back([this, connection] { serve(connection); });
    }
  }

  void serve(int connection) {
    std::string buffer;
    while (!stop_) {
      const size_t end = buffer.find("\r\n\r\n");
      if (end == std::string::npos) {
        char bytes[4096];
        const ssize_t count = ::recv(connection, bytes, sizeof(bytes), 0);
        if (count <= 0) break;
        buffer.append(bytes, static_cast<size_t>(count));
        continue;
      }
      const Answer answer = reply(parse(buffer.substr(0, end)));
      buffer.erase(0, end + 4);
      if (answer.head.empty()) break;
      const std::string text = answer.head + "\r\n\r\n" + answer.body;
      size_t sent = 0;
      while (sent < text.size()) {
        const ssize_t count =
            ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<size_t>(count);
      }
      if (answer.close) break;
    }
    const MutexLock lock(mutex_);
    open_.erase(connection);
    ::close(connection);
  }

  static Request parse(const std::string& head) {
    Request request;
    const size_t line = std::min(head.find("\r\n"), head.size());
    const std::string first = head.substr(0, line);
    const size_t begin = first.find(' ') + 1;
    std::string target = first.substr(begin, first.rfind(' ') - begin);
    const size_t mark = std::min(target.find('?'), target.size());
    if (mark < target.size()) request.query = target.substr(mark + 1);
    request.path = percent_decode(target.substr(0, mark));
    for (size_t at = line; at < head.size();) {
      const size_t next = std::min(head.find("\r\n", at + 2), head.size());
      add_header_line(head.substr(at + 2, next - at - 2), request.headers);
      at = next;
    }
    return request;
  }

  static std::string header(const Request& request, const std::string& name) {
    for (const auto& field : request.headers) {
      if (field.first == name) return field.second;
    }
    return {};
  }

  static Answer text(const std::string& status, const std::string& body,
                     const std::string& fields = "") {
    return {"HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + fields,
            body};
  }

  Answer reply(const Request& request) {
    const int number = requests_++;
    const MutexLock lock(mutex_);
    if (before_) {
      Answer first = before_(request, number);
      if (!first.head.empty() || first.close) return first;
    }
    if (request.query.find("list-type=2") != std::string::npos) return list(request);
    if (request.path == "/" + std::string(kIndexName)) return text("200 OK", index());
    const auto found = objects_.find(request.path);
    if (found == objects_.end()) return text("404 Not Found", "");
    const std::string& bytes = found->second;
    const std::string etag = "\r\nETag: " + etag_of(bytes);
    const std::string match = header(request, "if-match");
    if (!match.empty() && match != etag_of(bytes)) return text("412 Precondition Failed", "");
    const std::string range = header(request, "range");
    if (range.empty()) return text("200 OK", bytes, etag);
    const size_t dash = range.find('-');
    const uint64_t first = std::stoull(range.substr(6, dash - 6));
    const uint64_t last = std::min<uint64_t>(std::stoull(range.substr(dash + 1)), bytes.size() - 1);
    if (first >= bytes.size()) return text("416 Range Not Satisfiable", "");
    return text("206 Partial Content", bytes.substr(first, last - first + 1),
                etag + "\r\nContent-Range: bytes " + std::to_string(first) + "-" +
                    std::to_string(last) + "/" + std::to_string(bytes.size()));
  }

  static std::string etag_of(const std::string& bytes) {
    return "\"" + std::to_string(std::hash<std::string>()(bytes)) + "\"";
  }

  std::string index() const PENSTOCK_REQUIRES(mutex_) {
    std::string files;
    for (const auto& [path, bytes] : objects_) {
      files += (files.empty() ? "" : ", ") + ("\"" + path.substr(1)) +
               "\": " + std::to_string(bytes.size());
    }
    return R"({"format": "penstock-index", "version": 1, "files": {)" + files + "}}";
  }

  static std::string parameter(const std::string& query, const std::string& name) {
    const size_t at = ("&" + query).find("&" + name + "=");
    if (at == std::string::npos) return {};
    const size_t begin = at + name.size() + 1;
    return percent_decode(query.substr(begin, query.find('&', begin) - begin));
  }

  // Two entries a page, so that listings have several pages.
  Answer list(const Request& request) const PENSTOCK_REQUIRES(mutex_) {
    const std::string bucket = request.path.substr(0, request.path.find('/', 1)) + "/";
    const std::string prefix = parameter(request.query, "prefix");
    const bool one_level = !parameter(request.query, "delimiter").empty();
    std::map<std::string, std::string> entries;
    for (const auto& [path, bytes] : objects_) {
      if (path.compare(0, bucket.size(), bucket) != 0) continue;
      const std::string key = path.substr(bucket.size());
      if (key.compare(0, prefix.size(), prefix) != 0) continue;
      const size_t slash = key.find('/', prefix.size());
      if (one_level && slash != std::string::npos) {
        const std::string folder = key.substr(0, slash + 1);
        entries[folder] = "<CommonPrefixes><Prefix>" + folder + "</Prefix></CommonPrefixes>";
      } else {
        entries[key] = "<Contents><Key>" + key + "</Key><Size>" + std::to_string(bytes.size()) +
                       "</Size><ETag>" + etag_of(bytes) + "</ETag></Contents>";
      }
    }
    const std::string token = parameter(request.query, "continuation-token");
    std::string xml = "<?xml version=\"1.0\"?><ListBucketResult>";
    int count = 0;
    bool more = false;
    for (auto entry = entries.upper_bound(token); entry != entries.end(); ++entry) {
      xml += entry->second;
      if (++count == 2 && std::next(entry) != entries.end()) {
        xml += "<NextContinuationToken>" + entry->first + "</NextContinuationToken>";
        more = true;
        break;
      }
    }
    xml += std::string("<IsTruncated>") + (more ? "true" : "false") + "</IsTruncated>";
    return text("200 OK", xml + "</ListBucketResult>");
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> requests_{0}, connections_{0};
  std::thread accepting_;
  Mutex mutex_;
  std::map<std::string, std::string> objects_ PENSTOCK_GUARDED_BY(mutex_);
  std::function<Answer(const Request&, int number)> before_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::thread> serving_ PENSTOCK_GUARDED_BY(mutex_);
  std::set<int> open_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock::io
