// The bytes are an archive: opens it, lists it and reads all entries.

#include <penstock/error.h>

#include <memory>
#include <string>

#include "io/memory_store.h"
#include "io/zip/zip_store.h"

using namespace penstock;

namespace {

void read_below(const io::Store& store, const std::string& folder, int depth) {
  for (const io::DirectoryEntry& entry : store.list(folder)) {
    const std::string path = io::join(folder, entry.name);
    if (entry.is_directory) {
      if (!store.is_directory(path)) throw Internal("a folder that is listed is none");
      if (depth < 20) read_below(store, path, depth + 1);
      continue;
    }
    if (!store.exists(path)) throw Internal("an entry that is listed is not there");
    if (store.size_bytes(path) != entry.size_bytes) throw Internal("an entry of two sizes");
    if (entry.size_bytes > 1 << 24) continue;
    try {
      store.read_all(path);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto store = std::make_shared<io::MemoryStore>();
  store->put("x.zip", std::as_bytes(std::span(data, size)));
  try {
    read_below(*io::open_zip(store, "x.zip"), "x.zip", 0);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
  }
  return 0;
}
