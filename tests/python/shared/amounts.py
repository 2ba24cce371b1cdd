"""How much is tried of what is drawn at random: more, and others each day, where all tests are run."""

from __future__ import annotations

import datetime
import os

from hypothesis import settings

#: `make test-all` sets it; hypothesis reads the same name.
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


#: For an example that takes a second.
FEW = settings(max_examples=100 if THOROUGH else 10)


def seeds(count: int) -> range:
    """The first ones; where all tests are run four times as many, other ones each day."""
    if not THOROUGH:
        return range(count)
    first = datetime.datetime.now(datetime.UTC).date().toordinal() * 1000
    return range(first, first + 4 * count)
