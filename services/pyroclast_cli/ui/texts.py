"""A screen that shows the output of a command for the selected row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, RichLog, Static

from pyroclast.kube.basics.errors import KubeError
from pyroclast_cli.context import Failure

MOST_LINES = 10_000


def harmless(line: str) -> str:
    """Return a line with its control characters replaced, so that foreign text cannot control the terminal."""
    return "".join(each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in line)


class TextScreen(Screen[None]):
    """Shows the output of a command line by line, until the user presses Escape.

    Args:
        title: the title of the screen.
        work: runs the command; it calls the function that it receives with each piece of the output.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "app.pop_screen", "Back")]

    def __init__(self, title: str, work: Callable[[Callable[[str], None]], Awaitable[object]]) -> None:
        super().__init__()
        self._heading, self._work = title, work
        self._shown = RichLog(max_lines=MOST_LINES, wrap=True, markup=False, id="lines")
        self.lines: list[str] = []

    def compose(self) -> ComposeResult:
        """Compose the title, the output of the command, and the list of keys."""
        yield Static(Text(self._heading), id="title")
        yield self._shown
        yield Footer()

    def on_mount(self) -> None:
        """Start the task that writes the output of the command to the screen."""
        self._shown.focus()
        self.run_worker(self._write(), exclusive=True)

    async def _write(self) -> None:
        try:
            await self._work(self._take)
        except (Failure, KubeError) as error:
            self._take(str(error))

    def _take(self, text: str) -> None:
        for line in text.splitlines() or [""]:
            self.lines.append(harmless(line))
            self._shown.write(Text(self.lines[-1]))
        del self.lines[:-MOST_LINES]
