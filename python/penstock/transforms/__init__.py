"""Transforms of X, in the engine or in Python."""

from .chain import Transform
from .steps import (
    Binarize,
    Clip,
    Expm1,
    Log1p,
    NormalizeTotal,
    RankTokens,
    Scale,
    SelectGenes,
)

__all__ = [
    "Binarize",
    "Clip",
    "Expm1",
    "Log1p",
    "NormalizeTotal",
    "RankTokens",
    "Scale",
    "SelectGenes",
    "Transform",
]
