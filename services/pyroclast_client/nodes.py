"""What a flow is built of while its function runs: nodes in place of values, conditions in place of truth."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from pyroclast_client.errors import FlowError

if TYPE_CHECKING:
    from pyroclast_client.calls import Definition
    from pyroclast_client.payload import Arguments

__all__ = [
    "Builder",
    "Case",
    "Cases",
    "Condition",
    "Item",
    "Items",
    "Listening",
    "Node",
    "Order",
    "building",
    "current_builder",
    "otherwise",
    "refuse",
    "when",
]

PACKAGE: Final = str(Path(__file__).parent)
PHASES: Final = ("Completed", "Failed", "Terminated", "Aborted")
"""How a Job ends."""


class Builder(Protocol):
    """Whoever makes nodes of calls: a flow that is compiled, or one that runs here."""

    def add(self, task: Definition[..., Any], arguments: Sequence[Arguments], order: Order, loop: Loop | None) -> Node:
        """The node for a call, or for the rounds of a loop."""
        ...

    @contextmanager
    def when(self, condition: Condition) -> Iterator[None]:
        """Nodes that are made in the block run only if the condition holds."""
        ...

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Nodes that are made in the block run only if the condition of the last `when` does not hold, or no case does."""
        ...

    @contextmanager
    def switch(self, node: Node) -> Iterator[Cases]:
        """The blocks of cases in the block choose by how the node ends."""
        ...


_builder: ContextVar[Builder | None] = ContextVar("pyroclast_client_builder", default=None)


def current_builder() -> Builder | None:
    """The flow whose function runs just now."""
    return _builder.get()


@contextmanager
def building(builder: Builder | None) -> Iterator[None]:
    """Calls of tasks in the block make nodes of this builder; with None they are calls."""
    token = _builder.set(builder)
    try:
        yield
    finally:
        _builder.reset(token)


@dataclass(frozen=True)
class Loop:
    """The rounds of a node: how many run at the same time, and a CEL expression that ends them early."""

    parallel: int = 1
    until: str = ""


@dataclass(frozen=True)
class Order:
    """What must have happened before a node, besides what its arguments ask for."""

    nodes: tuple[Node, ...] = ()
    any: bool = False
    port: int | None = None


class Node:
    """The value that a task will have. It can be handed to other tasks, and asked for its outcome by `when`; nothing else."""

    def __init__(self, name: str, rounds: int | None = None) -> None:
        self.name = name
        self.rounds = rounds

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    def items(self, count: int) -> Items:
        """The items of the sequence that the value will be, of which there are `count`."""
        return Items(self, count)

    @property
    def succeeded(self) -> Condition:
        """That the task completes."""
        return Condition((self,), target=self, phases=("Completed",), text=f'targets["{self.name}"].phase == "Completed"')

    @property
    def failed(self) -> Condition:
        """That the task fails, after its retries."""
        return Condition((self,), target=self, phases=("Failed",), text=f'targets["{self.name}"].phase == "Failed"')

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the task, to be compared."""
        return ExitCode(self)

    @contextmanager
    def switch(self) -> Iterator[Cases]:
        """A choice by how the task ends: `with node.switch() as case:`, in it `with case(exit_code=3):` and `pc.otherwise()`."""
        with _asked("switch").switch(self) as cases:
            yield cases

    def when_listening(self, port: int) -> Listening:
        """This node from when its pods accept connections on a port, without waiting for its end."""
        return Listening(self, port)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - it always raises
        refuse(f"`if` on {self.name}, which has no value yet", "with pc.when(node.succeeded):")

    def __len__(self) -> NoReturn:  # noqa: PLE0303 - it always raises
        refuse(f"`len` of {self.name}, which has no value yet", "node.items(COUNT)")

    def __iter__(self) -> NoReturn:
        refuse(f"a loop over {self.name}, which has no value yet", "task.each(node.items(COUNT))")

    def __getitem__(self, key: object) -> NoReturn:
        refuse(f"an item of {self.name}, which has no value yet", "a task that takes it out of its argument")


@dataclass(frozen=True)
class Items:
    """The items of a node's value, to loop over by `task.each`."""

    node: Node
    count: int


@dataclass(frozen=True)
class Item:
    """One item of a node's value."""

    node: Node
    number: int


@dataclass(frozen=True)
class Listening:
    """A node from when it listens."""

    node: Node
    port: int


@dataclass(frozen=True)
class ExitCode:
    """The exit code that a node will have."""

    node: Node

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]  # a condition, not a truth
        """That it is this one."""
        return Condition((self.node,), text=f'targets["{self.node.name}"].exitCode == {other}')

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]  # see above
        """That it is another one."""
        return Condition((self.node,), text=f'targets["{self.node.name}"].exitCode != {other}')

    def __hash__(self) -> int:
        return hash(self.node)


@dataclass(frozen=True)
class Condition:
    """What `when` asks. Conditions combine by `&`, `|` and `~`."""

    nodes: tuple[Node, ...]
    text: str
    target: Node | None = None
    phases: tuple[str, ...] = field(default=())

    def __and__(self, other: Condition) -> Condition:
        return Condition((*self.nodes, *other.nodes), f"({self.text}) && ({other.text})")

    def __or__(self, other: Condition) -> Condition:
        return Condition((*self.nodes, *other.nodes), f"({self.text}) || ({other.text})")

    def __invert__(self) -> Condition:
        return Condition(self.nodes, f"!({self.text})")

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - it always raises
        refuse("`if` on an outcome that is not known yet", "with pc.when(node.succeeded):")


@contextmanager
def when(condition: object, *, failed: bool = False, exit_code: int | None = None) -> Iterator[None]:
    """Tasks that are called in the block run only if the condition holds.

    Args:
        condition: a node, which must complete, or a condition such as `a.failed & (b.exit_code == 3)`.
        failed: the node must fail instead, after its retries.
        exit_code: the node must end with this exit code.
    """
    builder = _asked("when")
    if isinstance(condition, Node):
        node = condition
        condition = node.exit_code == exit_code if exit_code is not None else node.failed if failed else node.succeeded
    if not isinstance(condition, Condition):
        refuse(f"when({condition!r}), which is no condition", "when(node.succeeded), node.failed or node.exit_code == 3")
    with builder.when(condition):
        yield


@contextmanager
def otherwise() -> Iterator[None]:
    """Tasks that are called in the block run only if the condition of the `when` before does not hold, or no case of a switch."""
    with _asked("otherwise").otherwise():
        yield


def refuse(what: str, instead: str) -> NoReturn:
    """Raise that something cannot be compiled, with the file and line of the user's code and the construct to use."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(PACKAGE) or "contextlib" in frame.f_code.co_filename):
        frame = frame.f_back
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    raise FlowError(f"{where}: {what}, cannot be compiled; use `{instead}`")


def _asked(what: str) -> Builder:
    builder = current_builder()
    if builder is None:
        refuse(f"`{what}` outside a flow", "@pc.flow")
    return builder


@dataclass(frozen=True)
class Case:
    """An outcome, by phase or by exit code, and the nodes that run then."""

    phase: str | None = None
    exit_code: int | None = None
    nodes: list[Node] = field(default_factory=list)


class Cases:
    """What `node.switch()` gives: called, it opens the block of one outcome."""

    def __init__(self, opened: Callable[[Case], AbstractContextManager[None]]) -> None:
        self._opened = opened

    def __call__(self, *, phase: str | None = None, exit_code: int | None = None) -> AbstractContextManager[None]:
        """Nodes that are made in the block run only when the outcome is this one, and none of the cases before."""
        if (phase is None) == (exit_code is None) or (phase is not None and phase not in PHASES):
            refuse(
                f"case(phase={phase!r}, exit_code={exit_code!r})", f"case(exit_code=3) or case(phase=...) of {', '.join(PHASES)}"
            )
        return self._opened(Case(phase, exit_code))
