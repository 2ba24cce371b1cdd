#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Writes zip archives, also ones that nothing sane writes. For tests only.

namespace penstock::io {

struct ZipMember {
  std::string name;
  std::string contents;
  bool deflated = false;
  bool zip64 = false;
  uint16_t flags = 0;
  int method = -1;            ///< instead of the one of `deflated`
  uint64_t shift = 0;         ///< added to the offset in the directory
  uint64_t grow = 0;          ///< added to both sizes in the directory
  uint64_t grow_size = 0;     ///< added to the size alone
  std::string local_extra{};  ///< extra fields that the directory does not have
};

class ZipWriter {
 public:
  static std::string archive(const std::vector<ZipMember>& members, const std::string& comment = "",
                             bool zip64 = false) {
    ZipWriter writer;
    for (const ZipMember& member : members) writer.add(member);
    return writer.finish(members.size(), comment, zip64);
  }

 private:
  template <typename T>
  static void put(std::string& out, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
    }
  }

  static std::string deflate_raw(const std::string& contents) {
    z_stream stream = {};
    deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, contents.size()) + 16, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
    stream.avail_in = static_cast<uInt>(contents.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }

  void add(const ZipMember& member) {
    const std::string stored = member.deflated ? deflate_raw(member.contents) : member.contents;
    const auto method = static_cast<uint16_t>(member.method >= 0 ? member.method
                                              : member.deflated  ? 8
                                                                 : 0);
    const auto crc =
        static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(member.contents.data()),
                                    static_cast<uInt>(member.contents.size())));
    const uint64_t offset = bytes_.size();
    put<uint32_t>(bytes_, 0x04034B50);
    put<uint16_t>(bytes_, 20);
    put<uint16_t>(bytes_, member.flags);
    put<uint16_t>(bytes_, method);
    put<uint32_t>(bytes_, 0);
    put<uint32_t>(bytes_, crc);
    put<uint32_t>(bytes_, static_cast<uint32_t>(stored.size()));
    put<uint32_t>(bytes_, static_cast<uint32_t>(member.contents.size()));
    put<uint16_t>(bytes_, static_cast<uint16_t>(member.name.size()));
    put<uint16_t>(bytes_, static_cast<uint16_t>(member.local_extra.size()));
    bytes_ += member.name + member.local_extra + stored;

    const uint64_t size = member.contents.size() + member.grow + member.grow_size;
    const uint64_t stored_size = stored.size() + member.grow;
    const uint64_t place = offset + member.shift;
    std::string extra;
    if (member.zip64) {
      put<uint16_t>(extra, 1);
      put<uint16_t>(extra, 24);
      put<uint64_t>(extra, size);
      put<uint64_t>(extra, stored_size);
      put<uint64_t>(extra, place);
    }
    const auto narrow = [&](uint64_t value) {
      return member.zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(value);
    };
    put<uint32_t>(directory_, 0x02014B50);
    put<uint32_t>(directory_, 20 | 20 << 16);
    put<uint16_t>(directory_, member.flags);
    put<uint16_t>(directory_, method);
    put<uint32_t>(directory_, 0);
    put<uint32_t>(directory_, crc);
    put<uint32_t>(directory_, narrow(stored_size));
    put<uint32_t>(directory_, narrow(size));
    put<uint16_t>(directory_, static_cast<uint16_t>(member.name.size()));
    put<uint16_t>(directory_, static_cast<uint16_t>(extra.size()));
    put<uint16_t>(directory_, 0);
    put<uint64_t>(directory_, 0);
    put<uint32_t>(directory_, narrow(place));
    directory_ += member.name + extra;
  }

  std::string finish(size_t members, const std::string& comment, bool zip64) {
    const uint64_t offset = bytes_.size();
    bytes_ += directory_;
    if (zip64) {
      const uint64_t record = bytes_.size();
      put<uint32_t>(bytes_, 0x06064B50);
      put<uint64_t>(bytes_, 44);
      put<uint32_t>(bytes_, 45 | 45 << 16);
      put<uint64_t>(bytes_, 0);
      put<uint64_t>(bytes_, members);
      put<uint64_t>(bytes_, members);
      put<uint64_t>(bytes_, directory_.size());
      put<uint64_t>(bytes_, offset);
      put<uint32_t>(bytes_, 0x07064B50);
      put<uint32_t>(bytes_, 0);
      put<uint64_t>(bytes_, record);
      put<uint32_t>(bytes_, 1);
    }
    put<uint32_t>(bytes_, 0x06054B50);
    put<uint32_t>(bytes_, 0);
    put<uint16_t>(bytes_, static_cast<uint16_t>(members));
    put<uint16_t>(bytes_, static_cast<uint16_t>(members));
    put<uint32_t>(bytes_, zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(directory_.size()));
    put<uint32_t>(bytes_, zip64 ? 0xFFFFFFFFU : static_cast<uint32_t>(offset));
    put<uint16_t>(bytes_, static_cast<uint16_t>(comment.size()));
    return bytes_ + comment;
  }

  std::string bytes_;
  std::string directory_;
};

}  // namespace penstock::io
