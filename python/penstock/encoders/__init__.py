"""Encoders turn obs columns into numbers for a model; docs/guides/encoders.md."""

from .batch import BatchEncoder
from .encoder import Encoder, checked_encoders
from .label import LabelEncoder
from .multi_hot import MultiHotEncoder
from .numeric import NumericEncoder
from .one_hot import OneHotEncoder

__all__ = [
    "BatchEncoder",
    "Encoder",
    "LabelEncoder",
    "MultiHotEncoder",
    "NumericEncoder",
    "OneHotEncoder",
    "checked_encoders",
]
