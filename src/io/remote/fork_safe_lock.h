#pragma once

#include "base/threads/mutex.h"

// One lock for the state of remote stores and the engine of each process. A fork waits for the
// lock, and it is free in the child. So hold it only for look-ups, never during a request.

namespace penstock::io {

/// Each variable that it guards is marked where it is: PENSTOCK_GUARDED_BY(fork_safe_lock()).
Mutex& fork_safe_lock();

}  // namespace penstock::io
