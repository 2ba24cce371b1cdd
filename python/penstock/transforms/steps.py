"""Transforms of X in a Dataset: `Dataset(..., transforms=[...])`.

The engine applies these steps on its own threads while it makes batches. Python callables come
after them. docs/guides/transforms.md has examples.
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
    """Scale the values of each cell to the sum `target_sum`; see `scanpy.pp.normalize_total`.

    The sum is over the genes at this step: the genes that the Dataset selects, or those of an
    earlier `SelectGenes`. A cell whose sum is 0 does not change.

    Parameters
    ----------
    target_sum : float, default 1e4
        Sum of the values of a cell after this step.
    totals : str, optional
        Column of obs with the sum of each cell ("raw_sum" in the Census), for a Dataset that does
        not read all genes. Takes 8 bytes for each selected cell.
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
    """A step with the base of a logarithm; `_method` is the method of the engine's plan."""

    base: float | None = None
    _method: ClassVar[str]

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        chain.add(self._method, _log_of_base(self.base))


@dataclass(frozen=True)
class Log1p(_OfBase):
    """Compute ``log(1 + x)``; see `scanpy.pp.log1p`.

    Parameters
    ----------
    base : float, optional
        Base of the logarithm; e by default.
    """

    _method = "log1p"


@dataclass(frozen=True)
class Expm1(_OfBase):
    """Compute ``base ** x - 1``, the inverse of `Log1p`.

    Parameters
    ----------
    base : float, optional
        Base of the logarithm; e by default.
    """

    _method = "expm1"


@dataclass(frozen=True)
class Clip(Transform):
    """Set values below `low` to `low`, and values above `high` to `high`.

    Parameters
    ----------
    low, high : float, optional
        Ends of the range. It must include 0, since otherwise every zero would become a value. After
        a centring `Scale` any range is valid.
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
    """Set values above `threshold` to 1, others to 0; see `sklearn.preprocessing.binarize`.

    Parameters
    ----------
    threshold : float, default 0
        Threshold, 0 or more.
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
    """Subtract `mean` from each gene, and divide by `std`; see `scanpy.pp.scale`.

    Parameters
    ----------
    std : array, mapping or pandas Series
        One number for each gene: an array of shape (genes,) in the order of the columns at this
        step, or numbers by the gene's name in `Dataset.var_names`. 0 is replaced by 1, as in
        scanpy.
    mean : array, mapping or pandas Series, optional
        One number for each gene to subtract. Every zero becomes a value, so batches must be dense.
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
    """Select the columns of X: these genes, in this order.

    As the first step it also limits which genes are read. After `NormalizeTotal`, the totals are
    over all genes that the Dataset selects, as in scanpy if genes are selected after normalising.

    Parameters
    ----------
    genes : sequence of str or int
        Names, matched to `column`, joinids of var, a bool for each column of X, or the table of
        `highly_variable_genes`, of which the highly variable genes are taken.
    column : str, optional
        Column of var with the names. By default that of `Dataset.var_names`, or another usual name
        column if that one has all of the names.
    missing : {"error", "zero"}, default "error"
        What to do if a gene does not exist: raise `NotFound`, or add a column of zeros.
    """

    genes: Any
    column: str | None = None
    missing: str = "error"

    def add_to(self, chain: Chain) -> None:
        """Check the step and add it."""
        given = chain.by_label(self.genes)
        genes = checked_items("SelectGenes(genes)", given, "a list of names or joinids")
        missing = checked_choice("missing", self.missing, ("error", "zero"))
        chain.select_genes(genes, self.column, missing == "zero")


class ChosenGenes(SelectGenes):
    """The genes of ``ds[:, genes]``, which `Dataset.with_settings` keeps."""


@dataclass(frozen=True, eq=False)
class RankTokens(Transform):
    """Encode each cell as the tokens of its genes, ranked by expression relative to the gene.

    The rule is that of Geneformer's tokenizer (Theodoris et al., Nature 618, 616-624, 2023,
    Methods, "rank value encoding"). Each value is divided by the cell's total, multiplied by
    `target_sum`, and divided by the gene's median. Genes with a value above zero are sorted from
    high to low, and the first `max_tokens` are kept. Equal values are in the order of the columns.

    The step takes counts, since it normalises them, and must be the last step of the engine. X is
    then a `Tokens`: ``ids`` of shape (cells, max_tokens), padded, and ``lengths``.

    Parameters
    ----------
    medians : mapping or pandas Series
        Name of a gene to the median of its non-zero normalised values. Genes without a median have
        no token.
    tokens : mapping
        Name of a gene to its token.
    max_tokens : int, default 2048
        Columns of ``ids``, including `cls_token` and `eos_token`. Later models use 4,096.
    target_sum : float, default 1e4
        As in `NormalizeTotal`.
    cls_token, eos_token : int, optional
        Tokens before and after the tokens of the genes.
    pad_token : int, default 0
        Token that fills the rest of a row.
    column : str, optional
        Column of var with the names ("feature_id" in the Census, for Ensembl ids). By default that
        of `Dataset.var_names`.
    totals : str, optional
        As in `NormalizeTotal`. The ranks of a cell do not depend on its total.
    dtype : {"int64", "int32"}
        Type of ``ids``.
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
