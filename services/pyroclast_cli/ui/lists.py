"""The lists of the full screen, and the subject of a row for further commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroclast.api.types import JOB_FLOWS, JOBS, NODES, PODS, QUEUES, ResourceType
from pyroclast.views.documents import Row
from pyroclast_cli.context import Context, Failure
from pyroclast_cli.flags import GLOBAL_FLAGS, parse
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.nodes import NODES_VIEW, nodes_table
from pyroclast_cli.views.output import Table
from pyroclast_cli.views.queues import QUEUES_VIEW, queues_table
from pyroclast_cli.views.waiting_and_running import RUNNING, WAITING, running_table, waiting_table


@dataclass(frozen=True, slots=True)
class ScreenList:
    """A list on the full screen. `command` has its flags.

    The list is read again when an object of the kinds in `watched` changes.
    """

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
    """Return the list whose name begins with a text.

    Raises:
        Failure: no list has such a name.
    """
    found = next((each for each in LISTS if text and each.name.startswith(text.lower())), None)
    if found is None:
        raise Failure(f'there is no list "{text}"; there are {", ".join(each.name for each in LISTS)}')
    return found


def subject_of(chosen: ScreenList, row: Row, *, is_a_job: bool = False) -> str:
    """Return the argument that names a row's object in a command, such as job/NAME.

    With `is_a_job`, the command only accepts Jobs.

    Raises:
        Failure: the row represents several objects, or no Job.
    """
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
    """Return the context of a command with these arguments.

    The flags named in `inherited` have the values that `vcctl ui` was called with.

    Raises:
        FlagError: an argument is invalid.
    """
    values, positional = parse(arguments, (*command.all_flags, *GLOBAL_FLAGS))
    values |= {name: given.values[name] for name in inherited if name in values and name in given.values}
    return TextContext(values, tuple(positional), given.connection, take=take)
