"""Choice of the shuffle of an epoch, if it depends on a cache or on memory.

``shuffle=True`` is global if `cache_dir` has every selected cell, or from the second epoch on if
all of them stay in memory. Caches of ranks and workers fill at different times. So the shuffle is
chosen once for each epoch, at its start, for all of them. See
docs/design/0009-pack-cache-and-global-shuffle.md and 0014-kept-rows.md.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock import _core
from penstock.plan.planner import Planner
from penstock.plan.settings import GLOBAL, SCATTER
from penstock.plan.shard import Shard, in_worker

from .rank_check import RankCheck

#: Numbers that DataLoader workers share for the shuffles; 0: none is chosen yet.
_NUMBERS = {SCATTER: 1, GLOBAL: 2}
_SHUFFLES = {number: shuffle for shuffle, number in _NUMBERS.items()}


class ShuffleChoice:
    """Shuffles of the epochs that a dataset has started in this process."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, bool], str] = {}  # by epoch, number of ranks and keep

    def settled(
        self,
        position: _core.ResumeState,
        planner: Planner,
        shard: Shard,
        rank_check: RankCheck,
        choice_of_workers: Callable[[int], int],
        reads: bool = True,
    ) -> Planner:
        """Return a planner with the shuffle of the epoch that starts at a position.

        `choice_of_workers` takes the choice of this DataLoader worker (0: none yet) and returns the
        first choice of any worker. This process `reads` the epoch, or its workers do.
        """
        depends = planner.order_depends_on_kept(shard)
        with_keep = reads and planner.replace_settings(keep=True).order_depends_on_kept(shard)
        if position.segments and (depends or with_keep):
            begun = position.segments[-1].order
            same = planner.replace_settings(shuffle=GLOBAL if begun.global_shuffle else SCATTER)
            # Without `keep` only if nothing else differs, because a global shuffle may read again.
            if depends or same.continues(position, shard):
                return same
        if not depends:
            return planner
        if in_worker():
            # The main process of a plain DataLoader does not know that an epoch starts.
            number = choice_of_workers(0)
            if number == 0:
                alone = shard.world_size == 1
                shuffle = planner.shuffle_of_epoch(position.epoch) if alone else SCATTER
                number = choice_of_workers(_NUMBERS[shuffle])
            shuffle = _SHUFFLES[number]
        else:
            shuffle = self._of_epoch(position.epoch, planner, shard, rank_check)
        return planner.replace_settings(shuffle=shuffle)

    def for_workers(self, epoch: int, planner: Planner, shard: Shard, rank_check: RankCheck) -> int:
        """Return the number for DataLoader workers that will start the epoch; 0 if not needed."""
        if not planner.depends_on_cache:
            return 0
        return _NUMBERS[self._of_epoch(epoch, planner, shard, rank_check)]

    def _of_epoch(self, epoch: int, planner: Planner, shard: Shard, rank_check: RankCheck) -> str:
        """Return the shuffle of an epoch; later calls return the first choice."""
        key = epoch, shard.world_size, planner.settings.keep
        if key not in self._made:
            shuffle = planner.shuffle_of_epoch(epoch)
            if shard.world_size > 1:
                is_global = shuffle == GLOBAL
                everywhere = planner.settings.is_compared and rank_check.holds_for_all(
                    epoch, shard.world_size, is_global
                )
                shuffle = GLOBAL if everywhere else SCATTER
            self._made[key] = shuffle
        return self._made[key]
