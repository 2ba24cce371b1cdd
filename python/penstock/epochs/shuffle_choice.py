"""Which shuffle an epoch has where that depends on what a cache holds.

``shuffle=True`` is global once every selected cell is kept in `cache_dir`, and a cache is filled at
other moments on other ranks and workers. So it is decided once for each epoch, when it begins, for
all of them; docs/design/0009-pack-cache-and-global-shuffle.md has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan.planner import Planner
from penstock.plan.settings import GLOBAL, SCATTER
from penstock.plan.shard import Shard, in_worker

from .rank_check import RankCheck
from .resume import ResumeState

#: Words that processes share, for the shuffles; 0 is none yet.
_WORDS = {SCATTER: 1, GLOBAL: 2}
_SHUFFLES = {word: shuffle for shuffle, word in _WORDS.items()}


class ShuffleChoice:
    """The shuffles of the epochs that one dataset has begun in this process."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], str] = {}  # by epoch and number of ranks

    def settled(
        self,
        position: ResumeState,
        planner: Planner,
        shard: Shard,
        rank_check: RankCheck,
        word_of_workers: Callable[[int], int],
    ) -> Planner:
        """Plans with the shuffle of the epoch that begins at the position.

        `word_of_workers` takes what this DataLoader worker would choose (0: nothing yet) and returns
        what was chosen first.
        """
        if not planner.depends_on_cache:
            return planner
        if position.segments:  # of a state: the epoch ends as it began
            begun = position.segments[-1].order
            shuffle = GLOBAL if begun.global_shuffle else SCATTER
        elif in_worker():
            # The main process of a plain DataLoader does not know that an epoch begins.
            word = word_of_workers(0)
            if word == 0:
                alone = shard.world_size == 1
                word = word_of_workers(_WORDS[planner.shuffle_by_cache if alone else SCATTER])
            shuffle = _SHUFFLES[word]
        else:
            shuffle = self._of_epoch(position.epoch, planner, shard, rank_check)
        return planner.replace_settings(shuffle=shuffle)

    def for_workers(self, epoch: int, planner: Planner, shard: Shard, rank_check: RankCheck) -> int:
        """A word for DataLoader workers that are about to begin the epoch; 0 where none is needed."""
        if not planner.depends_on_cache:
            return 0
        return _WORDS[self._of_epoch(epoch, planner, shard, rank_check)]

    def _of_epoch(self, epoch: int, planner: Planner, shard: Shard, rank_check: RankCheck) -> str:
        """What was chosen when the epoch began first: the same again on request."""
        key = epoch, shard.world_size
        if key not in self._made:
            shuffle = planner.shuffle_by_cache
            if shard.world_size > 1:
                is_global = shuffle == GLOBAL
                everywhere = planner.settings.is_compared and rank_check.holds_for_all(
                    epoch, shard.world_size, is_global
                )
                shuffle = GLOBAL if everywhere else SCATTER
            self._made[key] = shuffle
        return self._made[key]
