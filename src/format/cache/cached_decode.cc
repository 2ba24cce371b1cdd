#include "format/cache/cached_decode.h"

#include <penstock/error.h>

namespace penstock::format::pack {

void CachedDecode::start(uint32_t unit, std::vector<int64_t> rows) {
  unit_ = unit;
  rows_ = std::move(rows);
  active_ = nullptr;
  kept_.stop();
}

void CachedDecode::fetch() {
  if (fetch_kept()) return;
  // If the unit cannot be kept, only the chosen columns are decoded.
  CacheFolder& folder = reader_->cache().folder();
  if (folder.is_on() && folder.make_room(reader_->source().units()[unit_].stored_bytes)) {
    filled_.start(unit_, rows_);
    active_ = &filled_;
  } else {
    passed_ = reader_->chosen().start(unit_, rows_, std::move(passed_));
    active_ = passed_.get();
  }
  active_->fetch();
}

bool CachedDecode::fetch_kept() {
  const plan::FetchUnit& place = reader_->source().units()[unit_];
  const auto file = reader_->cache().find(place, rows_);
  if (file == nullptr) return false;
  try {
    kept_.start(unit_, rows_, file);
    kept_.fetch();
    CacheFolder::touch(file->path());
  } catch (const Error&) {
    // Evicted by another process, or truncated.
    kept_.stop();
    reader_->cache().drop(place, *file);
    return false;
  }
  active_ = &kept_;
  return true;
}

void CachedDecode::take_buffers(UnitDecode& finished) {
  auto* const other = dynamic_cast<CachedDecode*>(&finished);
  if (other != nullptr && other->active_ != nullptr) active_->take_buffers(*other->active_);
}

}  // namespace penstock::format::pack
