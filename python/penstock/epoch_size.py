"""Whether an epoch has a batch at all: an empty one would end a training loop without a word."""

from __future__ import annotations

import warnings

from .arguments import described
from .errors import InvalidArgument
from .loader_settings import LoaderSettings
from .sharding import Share


class NoCellsWarning(UserWarning):
    """No cell is selected, so that no epoch has a batch."""


def check_some_batch(cells: int, settings: LoaderSettings, share: Share) -> None:
    """Refuse settings that leave every rank without a batch, though there are cells.

    Depends on the number of cells of the epoch, not on the rank: all ranks raise or none.

    Raises
    ------
    InvalidArgument
        They do; the message says which setting, and what to give instead.
    """
    if cells == 0:
        return
    ranks, uneven = share.world_size, settings.uneven
    if uneven == "exact":  # the engine refuses a min_batch that cannot be kept
        if cells < ranks:
            raise InvalidArgument(
                f"{cells} cells are too few for {ranks} ranks to have one each, as "
                'uneven="exact" wants; use uneven="pad", which repeats cells, or fewer ranks, or '
                "shard=False, which gives every rank all of them"
            )
        return
    each = -(-cells // ranks) if uneven == "pad" else cells // ranks
    of_rank = f"a rank has {each} of {cells} cells" if ranks > 1 else f"there are {cells} cells"
    if each == 0:
        raise InvalidArgument(
            f'the epoch has no batch: {cells} cells are too few for {ranks} ranks, and uneven="drop" '
            'leaves them out; use uneven="pad", which repeats cells, or fewer ranks, or shard=False, '
            "which gives every rank all of them"
        )
    if settings.drop_last and each < settings.batch_size:
        raise InvalidArgument(
            f"the epoch has no batch: {of_rank}, fewer than batch_size={settings.batch_size}, and "
            "drop_last=True leaves such a batch out; use a smaller batch_size or drop_last=False"
        )
    if each < settings.min_batch:
        raise InvalidArgument(
            f"the epoch has no batch: {of_rank}, fewer than min_batch={settings.min_batch}; use "
            f"min_batch={each} or less"
            + (", or fewer ranks" if ranks > 1 else ", or select more cells")
        )


def warn_of_no_cells(stored: int, uri: str, obs_query: object, stacklevel: int) -> None:
    """Warn that a selection has no cell; `stored` is the number of cells to choose from."""
    if stored == 0:
        reason = "the experiment has none"
    elif obs_query is None:
        reason = "the source selects none"
    else:
        reason = f"obs_query {described(obs_query)} keeps none of {stored:,}"
    warnings.warn(
        f"no cell is selected, so that an epoch has no batch: {reason}, in {uri}. To see the values "
        "that a column has, read it: penstock.open(…).obs.to_pandas(columns=[…])",
        NoCellsWarning,
        stacklevel=stacklevel,
    )
