"""Labels beside the points of a plot, in place of a legend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

#: A plot with more names has a legend.
_MOST = 12
#: Places of a label around its points, in points of 1/72 inch: (x, y, horizontal, vertical).
_PLACES: Sequence[tuple[int, int, str, str]] = (
    (9, 0, "left", "center"), (-9, 0, "right", "center"), (0, 9, "center", "bottom"),
    (0, -9, "center", "top"), (9, 14, "left", "center"), (9, -14, "left", "center"),
    (-9, 14, "right", "center"), (-9, -14, "right", "center"), (9, 28, "left", "center"),
    (9, -28, "left", "center"), (-9, 28, "right", "center"), (-9, -28, "right", "center"),
)  # fmt: skip
_MARK = 6  # half of a marker, in points


def label_points(
    axes: Any, labels: Mapping[str, tuple[Any, Sequence[tuple[float, float]]]]
) -> bool:
    """Label each group of points in its colour, where neither points nor labels are.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        The plot, with its points and scales.
    labels : dict of str to (colour, points)
        Colour, and places of the points, for each name.

    Returns
    -------
    bool
        False if a name has no free place: the plot is left without labels, for a legend.
    """
    if len(labels) > _MOST:
        return False
    figure = axes.figure
    figure.canvas.draw()
    renderer, scale = figure.canvas.get_renderer(), figure.dpi / 72
    half = _MARK * scale
    marks = [
        (x - half, y - half, x + half, y + half)
        for _, points in labels.values()
        for x, y in axes.transData.transform(points)
    ]
    taken = [text.get_window_extent(renderer).extents for text in axes.texts]
    inside = axes.get_window_extent(renderer).extents
    made: list[Any] = []
    for name, (colour, points) in labels.items():
        pixels = axes.transData.transform(points)
        ends = (pixels[:, 0].min(), pixels[:, 0].max(), pixels[:, 1].min(), pixels[:, 1].max())
        for place in _PLACES:
            text = _placed(axes, name, colour, ends, place, scale)
            box = text.get_window_extent(renderer).extents
            if _within(box, inside) and not any(_meet(box, each) for each in (*taken, *marks)):
                taken.append(box)
                made.append(text)
                break
            text.remove()
        else:
            for text in made:
                text.remove()
            return False
    return True


def _placed(
    axes: Any, name: str, colour: Any, ends: Sequence[float], place: tuple[int, int, str, str],
    scale: float,
) -> Any:  # fmt: skip
    """Return the label at one place around the points, whose ends are in pixels."""
    left, right, low, high = ends
    x, y, horizontal, vertical = place
    across = {"left": right, "right": left}.get(horizontal, (left + right) / 2)
    up = {"bottom": high, "top": low}.get(vertical, (low + high) / 2)
    at = axes.transData.inverted().transform((across + x * scale, up + y * scale))
    return axes.text(*at, name, color=colour, fontsize=9, ha=horizontal, va=vertical, zorder=4)


def _meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _within(box: Sequence[float], outer: Sequence[float]) -> bool:
    return all(map(math.isfinite, box)) and (
        box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]
    )
