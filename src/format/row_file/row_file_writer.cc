#include <fcntl.h>
#include <penstock/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "base/concat.h"
#include "base/hash/checksum.h"
#include "format/row_file/row_file.h"
#include "format/row_file/row_file_layout.h"
#include "io/store.h"

namespace penstock::format::pack {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  const std::string message =
      std::string("cannot ") + action + ": " + std::generic_category().message(error) + ": " + path;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE) {
    throw ResourceExhausted(message);
  }
  throw IoError(message);
}

template <typename T>
void append_value(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::string temporary_name(const std::string& path) {
  std::random_device random;
  return concat(path, ".", random(), "-", random(), ".tmp");
}

RowFileWriter::RowFileWriter(std::string path, const RowFileFacts& facts, bool durable)
    : path_(io::normalize(path)),
      temporary_(temporary_name(path_)),
      facts_(facts),
      durable_(durable) {
  fd_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("write", temporary_, errno);
  buffer_.reserve(kBufferBytes);
  buffer_.resize(sizeof(RowFileHeader));
}

RowFileWriter::~RowFileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void RowFileWriter::append(int64_t row, std::span<const std::byte> record, uint64_t nonzeros) {
  if (row < facts_.row_begin || row >= facts_.row_end || (!rows_.empty() && row <= rows_.back()) ||
      record.size() % kWordBytes != 0) {
    throw Internal(concat("row ", row, " does not belong here in a row file"));
  }
  const uint64_t words = record.size() / kWordBytes;
  if (words >= kLongRecord) {
    long_words_.emplace_back(rows_.size(), words);
    words_.push_back(kLongRecord);
  } else {
    words_.push_back(static_cast<uint16_t>(words));
  }
  rows_.push_back(row);
  nonzeros_ += nonzeros;
  write(record);
}

void RowFileWriter::write(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBufferBytes) flush();
}

void RowFileWriter::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", temporary_, errno);
    }
    done += static_cast<size_t>(count);
  }
  written_ += buffer_.size();
  buffer_.clear();
}

std::vector<std::byte> RowFileWriter::index_bytes() const {
  std::vector<std::byte> index;
  const bool contiguous =
      rows_.empty() || (rows_.front() == facts_.row_begin &&
                        static_cast<uint64_t>(rows_.back() - rows_.front()) == rows_.size() - 1);
  const std::string bitmap =
      contiguous ? std::string() : RowSelection::from_sorted(rows_).serialize();
  append_value(index, uint64_t{bitmap.size()});
  const auto bitmap_bytes = std::as_bytes(std::span(bitmap));
  index.insert(index.end(), bitmap_bytes.begin(), bitmap_bytes.end());
  append_value(index, uint64_t{long_words_.size()});
  for (const auto& [position, words] : long_words_) {
    append_value(index, position);
    append_value(index, words);
  }
  const auto lengths = std::as_bytes(std::span(words_));
  index.insert(index.end(), lengths.begin(), lengths.end());
  return index;
}

uint64_t RowFileWriter::finish() {
  const auto index = index_bytes();
  RowFileHeader header;
  header.value_type = static_cast<uint32_t>(facts_.value_type);
  header.key = facts_.key;
  header.row_begin = facts_.row_begin;
  header.row_end = facts_.row_end;
  header.row_count = rows_.size();
  header.column_count = facts_.column_count;
  header.nonzeros = nonzeros_;
  header.index_offset = written_ + buffer_.size();
  header.index_bytes = index.size();
  header.index_checksum = lane_checksum(index);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  header.header_checksum = lane_checksum(bytes.first(bytes.size() - sizeof(uint32_t)));
  write(index);
  flush();
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", temporary_, errno);
    }
    done += static_cast<size_t>(count);
  }
  if (durable_ && ::fsync(fd_) != 0) fail("write", temporary_, errno);
  // Some file systems report only now that they are full.
  if (::close(std::exchange(fd_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    fail("write", path_, error);
  }
  return written_;
}

}  // namespace penstock::format::pack
