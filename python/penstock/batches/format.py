"""Format of batches: types of X and obs, and the columns of obs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.validation import checked_choice, checked_text
from penstock.encoders import Encoder
from penstock.errors import InvalidArgument
from penstock.experiment.data_frame import DataFrame
from penstock.plan.planner import Planner
from penstock.plan.settings import HALF_DTYPES, LoaderSettings

FORMATS = ("numpy", "torch")
OBS_FORMATS = ("arrays", "pandas", "torch")
ARGUMENTS = ("format", "obs_format", "obs_columns", "pad_column")


@dataclass(frozen=True)
class BatchFormat:
    """Checked arguments of `penstock.Dataset` about the format of batches.

    Arguments that are None follow from other settings. `given` keeps them, to derive a format for
    other settings.
    """

    format: str
    obs_format: str
    obs_columns: list[str]
    pad_column: str | None
    given: dict[str, Any]

    @classmethod
    def checked(
        cls,
        encoders: Sequence[Encoder],
        planner: Planner,
        **given: Any,
    ) -> BatchFormat:
        """Check `ARGUMENTS` against the columns of obs and the planner's settings.

        Raises
        ------
        InvalidArgument
            An argument is not valid, a name comes twice in obs, or a tensor cannot hold the values.
        NotFound
            A column does not exist.
        """
        experiment = planner.selection.experiment
        obs = experiment.obs
        obs_format = checked_choice("obs_format", given["obs_format"], OBS_FORMATS)
        columns = given["obs_columns"]
        if columns is None:
            columns = experiment.default_obs_columns(obs_format)
        else:
            given["obs_columns"] = columns = obs.checked_columns(columns, "obs_columns")
        made = cls(
            checked_choice("format", _format(given["format"], planner), FORMATS),
            obs_format,
            columns,
            _checked_name(given["pad_column"]),
            given,
        )
        made._check_names(obs, encoders, planner.missing_columns)
        if made.obs_format == "torch":
            _check_tensor_columns(obs, made.obs_columns)
        if made.format != "torch":
            for settings in planner.array_settings:
                _check_no_torch(settings)
        return made

    def _check_names(
        self, obs: DataFrame, encoders: Sequence[Encoder], missing: Iterable[str]
    ) -> None:
        names = list(self.obs_columns)
        for encoder in encoders:
            obs.checked_columns(encoder.columns)
            if encoder.name in names:
                raise InvalidArgument(
                    f"obs has {encoder.name!r} twice; give the encoder another name or leave the "
                    "column out of obs_columns"
                )
            names.append(encoder.name)
        for name in missing:
            if name in (*names, self.pad_column):
                raise InvalidArgument(
                    f"obs has {name!r} twice: it says which cells lack a measurement; give the "
                    "encoder or pad_column another name, or leave the column out of obs_columns"
                )
        if self.pad_column in names:
            raise InvalidArgument(
                f"obs has {self.pad_column!r} twice; give pad_column another name"
            )


def _format(chosen: Any, planner: Planner) -> Any:
    """Return the chosen format, or the default for the settings."""
    if chosen is not None:
        return chosen
    return "torch" if planner.is_placed else "numpy"


def _checked_name(pad_column: Any) -> str | None:
    return None if pad_column is None else checked_text("pad_column", pad_column)


def _check_tensor_columns(obs: DataFrame, columns: Sequence[str]) -> None:
    for info in obs.schema:
        if info.name in columns and (info.is_string or info.type.startswith(("date", "time"))):
            raise InvalidArgument(
                f"obs column {info.name!r} holds {info.type} values, which have no tensor; use "
                f"encoders=[LabelEncoder({info.name!r})] or obs_format='arrays'"
            )


def _check_no_torch(settings: LoaderSettings) -> None:
    if settings.device is not None:
        raise InvalidArgument(f"device={settings.device!r} needs format='torch'")
    if settings.dtype in HALF_DTYPES:
        raise InvalidArgument(f"dtype={settings.dtype!r} needs format='torch'")
