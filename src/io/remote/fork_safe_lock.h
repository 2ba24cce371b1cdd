#pragma once

#include "base/mutex.h"

// One lock for the state of remote stores and the engine of each process. A fork waits for the
// lock, and it is free in the child. So hold it only for look-ups, never during a request.

namespace penstock::io {

Mutex& fork_safe_lock();

}  // namespace penstock::io
