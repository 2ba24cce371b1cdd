"""Steps that a Dataset's batches go through: `Dataset(..., transforms=[...])`.

The engine applies them while batches are made, on its own threads; a Python callable, which comes
after them, is called with each batch. docs/transforms.md has examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.base.validation import (
    checked_choice,
    checked_int,
    checked_items,
    checked_number,
    described,
)
from penstock.errors import InvalidArgument

from .chain import Chain, Transform


@dataclass(frozen=True)
class NormalizeTotal(Transform):
    """Divide a cell's values by their sum over `target_sum`; `scanpy.pp.normalize_total`.

    The sum is that of the genes that the cell has at this step: those that the Dataset selects, or
    fewer after a `SelectGenes`. A cell whose sum is 0 stays as it is.

    Parameters
    ----------
    target_sum : float, default 1e4
        What the values of a cell sum to afterwards.
    totals : str, optional
        An obs column that has the sum of each cell (the Census: "raw_sum"), for a Dataset that does
        not read all genes. Takes 8 bytes a selected cell.
    """

    target_sum: float = 1e4
    totals: str | None = None

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        target = _positive("target_sum", self.target_sum)
        if self.totals is not None:
            chain.check_totals(self.totals)
        chain.add("normalize_total", target, totals=self.totals)


@dataclass(frozen=True)
class _OfBase(Transform):
    """A step with the base of a logarithm; `_method` is that of the engine's plan."""

    base: float | None = None
    _method: ClassVar[str]

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        chain.add(self._method, _log_of_base(self.base))


@dataclass(frozen=True)
class Log1p(_OfBase):
    """``log(1 + x)``; `scanpy.pp.log1p`.

    Parameters
    ----------
    base : float, optional
        Of the logarithm; e by default.
    """

    _method = "log1p"


@dataclass(frozen=True)
class Expm1(_OfBase):
    """``base ** x - 1``, the inverse of `Log1p`.

    Parameters
    ----------
    base : float, optional
        Of the logarithm; e by default.
    """

    _method = "expm1"


@dataclass(frozen=True)
class Clip(Transform):
    """Values below `low` become `low`, those above `high` become `high`.

    Parameters
    ----------
    low, high : float, optional
        Ends of the range, which must hold 0: other ranges would make every zero a value. After a
        centring `Scale` they are free.
    """

    low: float | None = None
    high: float | None = None

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        low = -np.inf if self.low is None else checked_number("low", self.low)
        high = np.inf if self.high is None else checked_number("high", self.high)
        if not low <= high:
            raise InvalidArgument(f"Clip needs low <= high, got low={low!r}, high={high!r}")
        if not (low <= 0 <= high or chain.is_centred):
            raise InvalidArgument(
                f"Clip to [{low}, {high}], a range without 0, would make every zero a value; "
                "let it hold 0, or clip after Scale(..., mean=...)"
            )
        chain.add("clip", low, high)


@dataclass(frozen=True)
class Binarize(Transform):
    """1 where a value is above `threshold`, else 0; `sklearn.preprocessing.binarize`.

    Parameters
    ----------
    threshold : float, default 0
        0 or more.
    """

    threshold: float = 0.0

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        threshold = checked_number("threshold", self.threshold)
        if not threshold >= 0:
            raise InvalidArgument(f"threshold must be 0 or more, got {self.threshold!r}")
        chain.add("binarize", threshold)


@dataclass(frozen=True, eq=False)
class Scale(Transform):
    """Divide each gene by a number of its own, after subtracting one; `scanpy.pp.scale`.

    Parameters
    ----------
    std : array, mapping or pandas Series
        One number a gene: in the order of the columns at this step, or by the gene's name in
        `Dataset.var_names`. 0 is taken for 1, as scanpy does.
    mean : array, mapping or pandas Series, optional
        What to subtract before. Every zero then becomes a value: dense batches only, and later
        steps see whole rows.
    """

    std: Any
    mean: Any = None

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        std = chain.by_gene("std", self.std)
        std = np.where(std == 0, 1.0, std)
        mean = None if self.mean is None else chain.by_gene("mean", self.mean)
        chain.add("scale", std, mean)
        chain.is_centred = chain.is_centred or mean is not None


@dataclass(frozen=True, eq=False)
class SelectGenes(Transform):
    """These genes, in this order, as the columns of X.

    As the first step it also decides which genes are read. After `NormalizeTotal`, the totals are
    over all genes that the Dataset selects, as with scanpy when genes are chosen after normalising.

    Parameters
    ----------
    genes : sequence of str or int
        Names, matched to `column`, or joinids of var. A mask from `highly_variable_genes` is
        ``hvg.soma_joinid[hvg.highly_variable]``.
    column : str, optional
        Column of var that has the names; that of `Dataset.var_names` by default.
    missing : {"error", "zero"}
        What to do for a name that there is not: refuse, or give a column of zeros.
    """

    genes: Any
    column: str | None = None
    missing: str = "error"

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        genes = checked_items("SelectGenes(genes)", self.genes, "a list of names or joinids")
        missing = checked_choice("missing", self.missing, ("error", "zero"))
        chain.select_genes(genes, self.column, missing == "zero")


@dataclass(frozen=True, eq=False)
class RankTokens(Transform):
    """A cell as the tokens of its genes, from the most to the least expressed for that gene.

    The rule of Geneformer's tokenizer (Theodoris et al., Nature 618, 616-624, 2023, Methods, "rank
    value encoding"): each value over the cell's total, times `target_sum`, over the gene's median;
    genes with a value above zero from high to low; at most `max_tokens`. Equal values come in the
    order of the columns. It is the last step of the engine, and takes counts: it normalises by
    itself. X is then a `Tokens`: ``ids`` of shape (cells, max_tokens), padded, and ``lengths``.

    Parameters
    ----------
    medians : mapping or pandas Series
        Name of a gene to the median of its non-zero values after normalising. Genes without one
        have no token.
    tokens : mapping
        Name of a gene to its token.
    max_tokens : int, default 2048
        Columns of ``ids``; `cls_token` and `eos_token` are among them. 4,096 for later models.
    target_sum : float, default 1e4
        As in `NormalizeTotal`.
    cls_token, eos_token : int, optional
        Tokens put before and after those of the genes.
    pad_token : int, default 0
        What fills the rest of a row.
    column : str, optional
        Column of var that has the names ("feature_id" in the Census, for Ensembl's); that of
        `Dataset.var_names` by default.
    totals : str, optional
        As in `NormalizeTotal`. The ranks of a cell do not depend on its total.
    dtype : {"int64", "int32"}
        Of ``ids``.
    """

    medians: Any
    tokens: Any
    max_tokens: int = 2048
    target_sum: float = 1e4
    cls_token: int | None = None
    eos_token: int | None = None
    pad_token: int = 0
    column: str | None = None
    totals: str | None = None
    dtype: str = "int64"

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        dtype = checked_choice("dtype", self.dtype, ("int64", "int32"))
        most = 2**31 - 1 if dtype == "int32" else 2**63 - 1
        ends = [
            None if token is None else checked_int(name, token, least=-most - 1, most=most)
            for name, token in (("cls_token", self.cls_token), ("eos_token", self.eos_token))
        ]
        room = sum(token is not None for token in ends)
        max_tokens = checked_int("max_tokens", self.max_tokens, least=room + 1, most=2**31 - 1)
        if self.totals is not None:
            chain.check_totals(self.totals)
        medians, tokens = chain.gene_tokens(self.medians, self.tokens, self.column, most)
        chain.add(
            "rank_tokens",
            medians,
            tokens,
            _positive("target_sum", self.target_sum),
            max_tokens,
            checked_int("pad_token", self.pad_token, least=-most - 1, most=most),
            *ends,
            totals=self.totals,
            last=(dtype,),
        )
        chain.max_tokens = max_tokens


def _positive(name: str, value: Any) -> float:
    number = checked_number(name, value)
    if not 0 < number < np.inf:
        raise InvalidArgument(f"{name} must be more than 0, got {described(value)}")
    return number


def _log_of_base(base: float | None) -> float:
    if base is None:
        return 1.0
    number = checked_number("base", base)
    if not 1 < number < np.inf:
        raise InvalidArgument(f"base must be more than 1, got {described(base)}")
    return float(np.log(number))
