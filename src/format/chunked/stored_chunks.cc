#include "format/chunked/stored_chunks.h"

#include <map>
#include <string_view>

namespace penstock::format::chunked {

StoredChunks::StoredChunks(const io::Store& store, std::span<const WantedBytes> wanted)
    : views_(wanted.size()) {
  std::map<std::string_view, std::vector<size_t>> of_object;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].path != nullptr) of_object[*wanted[i].path].push_back(i);
  }
  const io::CoalescingOptions options = store.traits().coalescing;
  std::vector<io::ReadRequest> requests;
  for (const auto& [path, members] : of_object) {
    std::vector<io::ByteRange> ranges;
    ranges.reserve(members.size());
    for (const size_t i : members) ranges.push_back(wanted[i].range);
    const io::CoalescedReads plan = io::coalesce(ranges, options);
    const size_t first = reads_.size();
    for (const io::ByteRange& read : plan.reads) {
      reads_.emplace_back(read.length);
      requests.push_back({std::string(path), read.offset, reads_.back().span()});
    }
    for (size_t i = 0; i < members.size(); ++i) {
      if (ranges[i].length == 0) continue;
      views_[members[i]] = reads_[first + plan.pieces[i].read].span().subspan(plan.pieces[i].offset,
                                                                              ranges[i].length);
    }
  }
  store.read_many(requests);
}

}  // namespace penstock::format::chunked
