#pragma once

#include <mutex>

// One lock for what remote stores remember and for which engine belongs to which process. A fork
// waits for it and the child has it free, so it is held for look-ups only, never during a request.

namespace penstock::io {

std::mutex& fork_safe_lock();

}  // namespace penstock::io
