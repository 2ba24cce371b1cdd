"""Output of the demo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from penstock.base.text import count, size

from .training import Result, Streamed


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:>9,.0f} cells/s" if speed else "", style="cyan")


class Screen:
    """Headings, progress bars and tables on a terminal; otherwise plain lines."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)

    def heading(self, number: str, title: str, detail: str) -> None:
        """Print the heading of an act."""
        self.console.print()
        self.console.print(f"[bold cyan]{number}[/]  [bold]{escape(title)}[/]")
        if detail:
            self.say(detail)

    def say(self, text: str) -> None:
        """Print one indented paragraph without markup, for paths and labels."""
        for line in text.splitlines():
            self.console.print(f"   {line}", soft_wrap=True, markup=False)

    def say_styled(self, text: str) -> None:
        """Print one indented line with rich's markup; it must not contain the user's text."""
        self.console.print(f"   {text}", soft_wrap=True)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int], Callable[[int], Any]]]:
        """Show progress bars, which disappear when the block ends."""
        columns = (
            TextColumn("   {task.description:<22}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            _Speed(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as bars:

            def add(description: str, total: int) -> Callable[[int], Any]:
                task = bars.add_task(description, total=total)
                return lambda cells: bars.advance(task, cells)

            yield add

    def streamed(self, seen: Streamed) -> None:
        """Print one line about an epoch without a model."""
        each = seen.nonzeros / max(1, seen.cells)
        self.say_styled(
            f"[bold]{seen.cells_per_second:,.0f} cells/s[/]: {count(seen.cells)} cells of "
            f"{each:,.0f} non-zeros in {seen.seconds:.2f} s, shuffled, from opening to the last "
            "batch"
        )
        self.say_styled(
            f"[dim]first batch after {seen.first_batch_seconds:.2f} s, "
            f"{size(seen.read_bytes)} read, {size(seen.peak_bytes)} held at most[/]"
        )

    def table(self, result: Result) -> None:
        """Print loss, validation accuracy and speed by epoch, with and without shuffling."""
        table = Table(box=None, padding=(0, 1), header_style="dim", show_edge=False)
        table.add_column("epoch", justify="right", vertical="bottom", no_wrap=True)
        for name in result.histories:
            table.add_column(f"{name}:\nloss", justify="right", no_wrap=True)
            table.add_column("\naccuracy", justify="right", no_wrap=True)
            table.add_column("\ncells/s", justify="right", no_wrap=True)
        for number in range(max(len(history.epochs) for history in result.histories.values())):
            row = [f"{number + 1}"]
            for history in result.histories.values():
                epoch = history.epochs[number]
                row += [
                    f"{epoch.loss:.3f}",
                    f"[bold]{100 * epoch.validation_accuracy:.1f} %[/]",
                    f"{epoch.cells_per_second:,.0f}",
                ]
            table.add_row(*row)
        self.console.print(table)
