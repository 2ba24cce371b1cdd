#pragma once

#include <vector>

#include "format/chunked/array.h"

// Arrays with chunks of any size, read from front to back in a few megabytes. They look like arrays
// without codecs in chunks of about a megabyte, and their store decodes as it is read
// (codec/chunk/chunk_stream.h).
//
// Reads of an array go forward, from any thread. A read before the megabyte that was decoded last
// begins again at the front of its chunk.

namespace penstock::format::chunked {

/// Arrays of one matrix, which have other paths. They share a store. Empty if one of them cannot be
/// read so: its chunks have other filters than deflate and a byte shuffle, or are narrower than a
/// row of the array.
std::vector<ArrayPtr> forward_arrays(const std::vector<ArrayPtr>& arrays);

}  // namespace penstock::format::chunked
