"""The building blocks of a flow while its function runs: nodes represent values, and conditions represent outcomes.

The function runs once, before any of its tasks, so what a task returns does not exist yet. Python would take a node as an
ordinary object: `if grade == "good"` would be False, `if node.exit_code:` always true, and an f-string would contain the node's
name. The flow would take the wrong branch, and nobody would see it. So every operation of Python on what does not exist yet
raises FlowError with what to write instead. Only what a flow can evaluate later has a result: comparisons of values with
constants and of exit codes with numbers, and `&`, `|` and `~` of conditions.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from pyroclast_client.errors import FlowError

if TYPE_CHECKING:
    from pyroclast_client.options import Definition
    from pyroclast_client.payload import Arguments


PACKAGE: Final = str(Path(__file__).parent)
PHASES: Final = ("Completed", "Failed", "Terminated", "Aborted")
"""The final phases of a Job."""


class Builder(Protocol):
    """Makes nodes from calls: either a flow that is compiled, or a flow that runs in this process."""

    def add(self, task: Definition[..., Any], arguments: Sequence[Arguments], order: Order, loop: Loop | None) -> Node:
        """Return the node for a call, or for the rounds of a loop."""
        ...

    @contextmanager
    def when(self, condition: Condition) -> Iterator[None]:
        """Run the nodes that are made in the block only if the condition is true."""
        ...

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Run the nodes that are made in the block only if the last `when` condition is false, or no case of the switch
        matches.
        """
        ...

    @contextmanager
    def switch(self, node: Node) -> Iterator[Cases]:
        """Choose between the case blocks inside this block by the outcome of the node."""
        ...


_builder: ContextVar[Builder | None] = ContextVar("pyroclast_client_builder", default=None)


def current_builder() -> Builder | None:
    """Return the builder of the flow whose function runs now. None outside of a flow."""
    return _builder.get()


@contextmanager
def building(builder: Builder | None) -> Iterator[None]:
    """Make nodes of this builder from the calls of tasks in the block. With None, the calls run as plain calls."""
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
    """The order of a node after other nodes, besides those whose values its arguments contain."""

    nodes: tuple[Node, ...] = ()
    any: bool = False
    port: int | None = None


_COMPARISONS: Final = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_OPERATORS: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv",
    "//": "floordiv", "%": "mod", "@": "matmul", "**": "pow", "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
_FUNCTIONS: Final = {
    "abs": "abs", "int": "int", "float": "float", "complex": "complex", "round": "round", "index": "index", "unary -": "neg",
    "unary +": "pos", "~": "invert", "numpy": "array_ufunc", "array": "array",
    "len": "len", "[]": "getitem", "[] =": "setitem",
}  # fmt: skip


class Unknown:
    """What does not exist yet while the function of a flow runs. `refuse_use` raises FlowError for an operation."""

    def refuse_use(self, operation: str) -> NoReturn:
        """Refuse an operation, and say what to write instead."""
        raise NotImplementedError

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - always raises
        self.refuse_use("`if`")

    def __str__(self) -> str:  # noqa: PLE0307 - always raises
        self.refuse_use("`str`")

    def __format__(self, _form: str) -> str:
        self.refuse_use("an f-string")


def _refusing(operation: str) -> Callable[..., NoReturn]:
    def refused(self: Unknown, *_: object, **__: object) -> NoReturn:
        self.refuse_use(operation)

    return refused


for _word, _name in {**_COMPARISONS, **_OPERATORS, **_FUNCTIONS}.items():
    setattr(Unknown, f"__{_name}__", _refusing(f"`{_word}`"))
    if _word in _OPERATORS:
        setattr(Unknown, f"__r{_name}__", _refusing(f"`{_word}`"))


class Comparable(Unknown):
    """What does not exist yet, but what a flow can compare with constants later."""

    def _compared(self, operator: str, other: object) -> Condition:
        raise NotImplementedError

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]  # returns a condition, not a bool
        """Return the condition that it equals `other`."""
        return self._compared("==", other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]  # see above
        """Return the condition that it differs from `other`."""
        return self._compared("!=", other)

    def __lt__(self, other: object) -> Condition:
        return self._compared("<", other)

    def __le__(self, other: object) -> Condition:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> Condition:
        return self._compared(">", other)

    def __ge__(self, other: object) -> Condition:
        return self._compared(">=", other)

    __hash__ = Unknown.__hash__


class Node(Comparable):
    """The future value of a task. A node can be passed to other tasks, and `when` can test its outcome."""

    def __init__(self, name: str, rounds: int | None = None, *, pods: int = 1) -> None:
        self.name = name
        self.rounds = rounds
        self.pods = pods

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    def items(self, count: int) -> Items:
        """Return the items of the value, which will be a sequence of `count` items."""
        return Items(self, count)

    @property
    def succeeded(self) -> Condition:
        """The condition that the task completes."""
        return Condition((self,), target=self, phases=("Completed",), text=f'targets["{self.name}"].phase == "Completed"')

    @property
    def failed(self) -> Condition:
        """The condition that the task fails, after its retries."""
        return Condition((self,), target=self, phases=("Failed",), text=f'targets["{self.name}"].phase == "Failed"')

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the task, for comparisons."""
        return ExitCode(self)

    def switch(self) -> AbstractContextManager[Cases]:
        """Choose by the outcome of the task:

        `with node.switch() as case:`, in it `with case(exit_code=3):` and `pc.otherwise()`.
        """
        return _asked("switch").switch(self)

    def when_listening(self, port: int) -> Listening:
        """Return this node for `after`, satisfied as soon as the node's pods accept connections on the port."""
        return Listening(self, port)

    def _compared(self, operator: str, other: object) -> Condition:
        """Return the condition that compares the value of the task, which must be a short string, number or boolean."""
        is_comparable = isinstance(other, bool | int | str) or (isinstance(other, float) and math.isfinite(other))
        if self.rounds is not None or not is_comparable:
            self.refuse_use(f"`{operator} {other!r}`")
        literal = json.dumps(other, ensure_ascii=False)
        value = "outputs.value" if self.pods == 1 else "outputs[0].value"  # the value of a gang is that of its first pod
        text = f'targets["{self.name}"].{value} {operator} {literal}'
        return Condition((self,), text=text, compared=(operator, other))

    def refuse_use(self, operation: str) -> NoReturn:
        """See `Unknown.refuse_use`."""
        instead = f"a task with the argument {self.name}"
        if operation == "`if`":
            instead = "with pc.when(node.succeeded):"
        elif operation.strip("`").split(" ")[0] in _COMPARISONS:
            instead = "with pc.when(node == 3): with a string, a number or a boolean"
        refuse(f"{operation} on {self.name}, which has no value yet", instead)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # asked for by Python itself
            raise AttributeError(name)
        self.refuse_use(f"`.{name}`")

    def __len__(self) -> NoReturn:  # noqa: PLE0303 - always raises
        refuse(f"`len` of {self.name}, which has no value yet", "node.items(COUNT)")

    def __iter__(self) -> NoReturn:
        refuse(f"a loop over {self.name}, which has no value yet", "task.each(node.items(COUNT))")

    def __getitem__(self, key: object) -> NoReturn:
        refuse(f"an item of {self.name}, which has no value yet", "a task that takes it out of its argument")


@dataclass(frozen=True, eq=False)
class Items(Unknown):
    """The items of a node's value, for a loop with `task.each`."""

    node: Node
    count: int

    def refuse_use(self, operation: str) -> NoReturn:
        """See `Unknown.refuse_use`."""
        refuse(f"{operation} on the items of {self.node.name}, which has no value yet", "task.each(node.items(COUNT))")

    def __iter__(self) -> NoReturn:
        self.refuse_use("a loop")


@dataclass(frozen=True)
class Item:
    """One item of a node's value."""

    node: Node
    number: int


@dataclass(frozen=True)
class Listening:
    """A node whose pods must accept connections on a port."""

    node: Node
    port: int


@dataclass(frozen=True, eq=False)
class ExitCode(Comparable):
    """The future exit code of a node. Comparisons with numbers return conditions."""

    node: Node

    def refuse_use(self, operation: str) -> NoReturn:
        """See `Unknown.refuse_use`."""
        what = f"{operation} on the exit code of {self.node.name}, which does not exist yet"
        refuse(what, "with pc.when(node.exit_code == 3):")

    def _compared(self, operator: str, other: object) -> Condition:
        if not isinstance(other, int) or isinstance(other, bool):
            self.refuse_use(f"`{operator} {other!r}`")
        return Condition((self.node,), text=f'targets["{self.node.name}"].exitCode {operator} {other}')


@dataclass(frozen=True, eq=False)
class Condition(Unknown):
    """A condition for `when`. Conditions combine by `&`, `|` and `~`."""

    nodes: tuple[Node, ...]
    text: str
    target: Node | None = None
    phases: tuple[str, ...] = field(default=())
    compared: tuple[str, object] | None = None

    def refuse_use(self, operation: str) -> NoReturn:
        """See `Unknown.refuse_use`."""
        instead = "node.succeeded" if self.compared is None else "node == 3"
        refuse(f"{operation} on an outcome that is not known yet", f"with pc.when({instead}):")

    def __and__(self, other: Condition) -> Condition:
        return Condition((*self.nodes, *other.nodes), f"({self.text}) && ({other.text})")

    def __or__(self, other: Condition) -> Condition:
        return Condition((*self.nodes, *other.nodes), f"({self.text}) || ({other.text})")

    def __invert__(self) -> Condition:
        return Condition(self.nodes, f"!({self.text})")


class Block(AbstractContextManager[None]):
    """The block of a choice. It is for `with`; an `if` would always take it."""

    def __init__(self, block: AbstractContextManager[None]) -> None:
        self._block = block

    def __enter__(self) -> None:
        return self._block.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        return self._block.__exit__(kind, error, trace)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - always raises
        refuse("`if` on a choice, whose outcome is not known yet", "with pc.when(...):")


def when(condition: object, *, failed: bool = False, exit_code: int | None = None) -> Block:
    """Run the tasks that are called in the block only if the condition is true.

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
    return Block(builder.when(condition))


def otherwise() -> Block:
    """Run the tasks that are called in the block only if the previous `when` condition is false, or no case of the switch
    matches.
    """
    return Block(_asked("otherwise").otherwise())


def refuse(what: str, instead: str) -> NoReturn:
    """Raise a FlowError with the file and line of the user's code, and with the construct to use instead."""
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
    """An outcome, as a phase or an exit code, and the nodes that run after that outcome."""

    phase: str | None = None
    exit_code: int | None = None
    nodes: list[Node] = field(default_factory=list)


class Cases:
    """The result of `node.switch()`. A call of this result opens the block of one outcome."""

    def __init__(self, opened: Callable[[Case], AbstractContextManager[None]]) -> None:
        self._opened = opened

    def __call__(self, *, phase: str | None = None, exit_code: int | None = None) -> Block:
        """Run the nodes that are made in the block only if this outcome occurred and no earlier case matches."""
        if (phase is None) == (exit_code is None) or (phase is not None and phase not in PHASES):
            refuse(
                f"case(phase={phase!r}, exit_code={exit_code!r})", f"case(exit_code=3) or case(phase=...) of {', '.join(PHASES)}"
            )
        return Block(self._opened(Case(phase, exit_code)))
