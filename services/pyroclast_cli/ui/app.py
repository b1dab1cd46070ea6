"""The full screen: one list that is updated with the cluster, with the keys of k9s, and screens of text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, RichLog, Static
from textual.worker import Worker

from pyroclast.api.types import JOB_FLOWS, JOBS, NODES, PODS, QUEUES, ResourceType
from pyroclast.kube.basics.errors import KubeError
from pyroclast.views.contract import Row
from pyroclast_cli.flags import GLOBAL_FLAGS, Context, Failure, parse
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.explain import EXPLAIN
from pyroclast_cli.views.logs import LOGS
from pyroclast_cli.views.nodes import NODES_VIEW, nodes_table
from pyroclast_cli.views.output import Table, fitting
from pyroclast_cli.views.queues import QUEUES_VIEW, queues_table
from pyroclast_cli.views.scope import namespaces_of
from pyroclast_cli.views.timeline import TIMELINE
from pyroclast_cli.views.waiting import RUNNING, WAITING, running_table, waiting_table
from pyroclast_cli.views.watching import looks

MOST_LINES = 10_000


def harmless(line: str) -> str:
    """Return a line with its control characters replaced, so that foreign text cannot control the terminal."""
    return "".join(each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in line)


class TextScreen(Screen[None]):
    """Shows the output of a command line by line, until the user presses Escape.

    `work` runs the command; it calls the function that it receives with each piece of the output.
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


@dataclass(frozen=True, slots=True)
class ScreenList:
    """A list on the full screen, which is read again when an object of the kinds in `watched` changes."""

    name: str
    command: Leaf
    read: Callable[[Context], Awaitable[Table]]
    watched: tuple[ResourceType, ...]
    is_namespaced: bool = True


LISTS: Final = (
    ScreenList("waiting", WAITING, waiting_table, (JOBS, JOB_FLOWS)),
    ScreenList("running", RUNNING, running_table, (JOBS, PODS)),
    ScreenList("queues", QUEUES_VIEW, queues_table, (QUEUES,), is_namespaced=False),
    ScreenList("nodes", NODES_VIEW, nodes_table, (NODES, PODS), is_namespaced=False),
)


def find_list(text: str) -> ScreenList:
    """Return the list whose name begins with a text."""
    match = next((each for each in LISTS if text and each.name.startswith(text.lower())), None)
    if match is None:
        raise Failure(f'there is no list "{text}"; there are {", ".join(each.name for each in LISTS)}')
    return match


def subject_of(chosen: ScreenList, row: Row, *, is_a_job: bool = False) -> str:
    """Return the argument that names a row's object in a command, such as job/NAME; with `is_a_job` only that of a Job."""
    if is_a_job and row.get("object") != JOBS.qualified:
        raise Failure("this row is no Job of batch.volcano.sh")
    if chosen.command is NODES_VIEW:
        if len(row["names"]) > 1:
            raise Failure(f"{len(row['names'])} equal nodes share this row: vcctl explain node/{row['names'][0]} tells of one")
        return f"node/{row['names'][0]}"
    if chosen.command is QUEUES_VIEW:
        return f"queue/{row['name']}"
    return f"{'job' if row['object'] == JOBS.qualified else 'podgroup'}/{row['name']}"


@dataclass(frozen=True, slots=True)
class TextContext(Context):
    """A context whose lines are passed to `take` instead of standard output."""

    take: Callable[[str], None] = field(kw_only=True)

    def say(self, line: str) -> None:
        """Call `take` with the line instead of printing it."""
        self.take(line)


def text_context(
    given: Context, command: Leaf, arguments: Sequence[str], take: Callable[[str], None], *inherited: str
) -> TextContext:
    """Return the context of a command, in which the flags in `inherited` have the values that `vcctl ui` was called with."""
    values, positional = parse(arguments, (*command.all_flags, *GLOBAL_FLAGS))
    values |= {name: given.values[name] for name in inherited if name in values and name in given.values}
    return TextContext(values, tuple(positional), given.connection, take=take)


RETRY_SECONDS: Final = 2.0
SCOPE: Final = ("namespace", "all-namespaces", "selector", "queue", "user")


class Explorer(App[None]):
    """The application. `given` holds the flags of `vcctl ui` and the client."""

    CSS = "#title { text-style: bold; } #problem { color: $error; } #entry { display: none; } DataTable, RichLog { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "explain", "Explain", priority=False),
        Binding("l", "logs", "Logs"),
        Binding("t", "timeline", "Timeline"),
        # priority: runs before the list receives the next key
        Binding("slash", "ask('/')", "Filter", key_display="/", priority=True),
        Binding("colon", "ask(':')", "List", key_display=":", priority=True),
        Binding("escape", "leave", "Clear", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def action_help(self) -> None:
        """Show the keys and the lists."""
        lines = [f"{each.key_display or each.key:<8} {each.description}" for each in self.BINDINGS if isinstance(each, Binding)]
        lines += ["escape   Back, or no filter", f"lists    {', '.join(each.name for each in LISTS)}; choose one with :NAME"]
        lines.append("A narrow window leaves out the less important columns")

        async def work(take: Callable[[str], None]) -> None:
            take("\n".join(lines))

        self.push_screen(TextScreen("Keys", work))

    def __init__(self, given: Context) -> None:
        super().__init__()
        self._given = given
        self._list, self._filter, self._asked = LISTS[0], "", "/"
        self._is_typing = False
        self._table: Table | None = None
        self._shown: Sequence[Row] = ()
        self._following: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        """Compose the screen: the title, the error line, the list of objects, the input line, and the list of keys."""
        yield Static(id="title")
        yield Static(id="problem")
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Input(id="entry")
        yield Footer()

    def on_mount(self) -> None:
        """Show the list of waiting Jobs first."""
        self.query_one(DataTable).focus()
        self._follow(self._list)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - of the base class
        """Return whether the keyboard key of an action is active now."""
        return action != "ask" or not (self._is_typing or isinstance(self.screen, TextScreen))

    def action_ask(self, what: str) -> None:
        """Open the input line for a filter or the name of a list."""
        self._asked, self._is_typing = what, True
        entry = self.query_one(Input)
        entry.placeholder = "words in a row" if what == "/" else ", ".join(each.name for each in LISTS)
        entry.value = self._filter if what == "/" else ""
        entry.display = True
        self.screen.set_focus(entry)  # at once, so that the input line receives the next key

    def action_leave(self) -> None:
        """Close the input line and remove the filter."""
        self._close_entry()
        self._filter = ""
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter while the user types."""
        if self._asked == "/" and self._is_typing:
            self._filter = event.value.strip().lower()
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the submitted input."""
        self._close_entry()
        if self._asked == ":":
            try:
                self._follow(find_list(event.value.strip()))
            except Failure as error:
                self.notify(str(error), severity="error", markup=False)

    def action_explain(self) -> None:
        """Explain the state of the selected row."""
        self._tell("Explain", EXPLAIN, "board", "recorder")

    on_data_table_row_selected = action_explain  # the Enter key on a row

    def action_logs(self) -> None:
        """Follow the logs of the selected Job."""
        self._tell("Logs", LOGS, more=("--follow", "--tail=100"), needs_job=True)

    def action_timeline(self) -> None:
        """Show when the pods of the selected Job were created, started and ended."""
        self._tell("Timeline", TIMELINE, needs_job=True)

    def _tell(self, what: str, command: Leaf, *inherited: str, more: Sequence[str] = (), needs_job: bool = False) -> None:
        """Show the output of a command for the selected row."""
        cursor = self.query_one(DataTable).cursor_row
        if isinstance(self.screen, TextScreen) or not 0 <= cursor < len(self._shown):
            return
        row = self._shown[cursor]
        try:
            subject = subject_of(self._list, row, is_a_job=needs_job)
        except Failure as error:
            self.notify(str(error), severity="error", markup=False)
            return
        namespace = [f"--namespace={row['namespace']}"] if row.get("namespace") else []

        async def work(take: Callable[[str], None]) -> None:
            await command.work(text_context(self._given, command, [subject, *namespace, *more], take, *inherited))

        self.push_screen(TextScreen(f"{what} {subject} {row.get('namespace', '')}".rstrip(), work))

    def _close_entry(self) -> None:
        self._is_typing = False
        self.query_one(Input).display = False
        self.screen.set_focus(self.query_one(DataTable))

    def _follow(self, chosen: ScreenList) -> None:
        """Show another list from now on."""
        if self._following is not None:
            self._following.cancel()
        self._list, self._table, self._filter = chosen, None, ""
        self._draw()
        self._following = self.run_worker(self._read(chosen), group="list", exclusive=True)

    async def _read(self, chosen: ScreenList) -> None:
        context = text_context(self._given, chosen.command, (), self.log, *(SCOPE if chosen.is_namespaced else ()))
        namespace = namespaces_of(context) if chosen.is_namespaced else ""
        while True:
            try:
                async for table in looks(context.client, partial(chosen.read, context), *chosen.watched, namespace=namespace):
                    self._problem("")
                    self._table = table
                    self._draw()
            except (Failure, KubeError) as error:
                self._problem(str(error))
            await asyncio.sleep(RETRY_SECONDS)

    def _problem(self, text: str) -> None:
        if not self.is_running:
            return
        line = self.query_one("#problem", Static)
        line.update(Text(harmless(text)))
        line.display = bool(text)

    def _draw(self) -> None:
        """Draw the list. The cursor stays on its row."""
        if not self.is_running:
            return
        table, widget = self._table, self.query_one(DataTable)
        shown = [each for each in table.columns if not each.is_wide] if table else []
        columns, _ = fitting(shown, table.rows if table else (), self.size.width - 2)
        cells = [(row, [harmless(each.cell(row)) for each in columns]) for row in (table.rows if table else ())]
        matching = [(row, texts) for row, texts in cells if self._filter in " ".join(texts).lower()]
        known, at = self._shown, widget.cursor_row
        before = _name(known[at]) if 0 <= at < len(known) else None
        self._shown = [row for row, _ in matching]
        widget.clear(columns=True)
        widget.add_columns(*(each.header for each in columns))
        for _, texts in matching:
            widget.add_row(*map(Text, texts))
        names = [_name(row) for row in self._shown]
        widget.move_cursor(row=names.index(before) if before in names else min(at, max(0, len(names) - 1)))
        self.query_one("#title", Static).update(Text(self._title(len(matching), len(cells))))

    def _title(self, shown: int, total: int) -> str:
        if self._table is None:
            return f"{self._list.name}: reading"
        where = ""
        if self._list.is_namespaced:
            where = f" in {namespaces_of(self._given) or 'all namespaces'}"
        return f"{self._list.name}{where}: {shown}" + (f' of {total} with "{self._filter}"' if self._filter else "")


def _name(row: Row) -> tuple[object, ...]:
    """Return the fields that identify a row."""
    return tuple(str(row.get(field)) for field in ("namespace", "name", "resource", "names", "object"))
