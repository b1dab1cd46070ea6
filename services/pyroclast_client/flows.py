"""Flows written in Python: `flow` makes a JobFlow and its JobTemplates from a function that calls tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from pyroclast_client import defaults
from pyroclast_client.entries import nodes_in
from pyroclast_client.errors import FlowError, Usage
from pyroclast_client.flow_compilation import FlowCall, FlowDefinition
from pyroclast_client.flow_values import Builder, Case, Cases, Condition, Item, Loop, Node, Order, building, refuse
from pyroclast_client.options import Definition
from pyroclast_client.payload import Arguments

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass
class Rehearsal(Builder):
    """The values and outcomes of the calls until now.

    A call is skipped if a condition excludes it, or if the nodes that it depends on have not completed.
    """

    values: dict[str, Any] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    _failures: dict[str, Exception] = field(default_factory=dict)
    _wanted: list[bool] = field(default_factory=list)
    _last: bool = False

    def add(self, task: Definition[..., Any], arguments: Sequence[Arguments], order: Order, loop: Loop | None) -> Node:
        """Run the call at once, with its retries."""
        node = Node(f"{task.name}-{len(self.outcomes) + 1}", None if loop is None else len(arguments))
        needs = [self.outcomes[each.name] == "Completed" for each in nodes_in(arguments)]
        waits = [self.outcomes[each.name] == "Completed" for each in order.nodes]
        may_start = all(needs) and (any(waits) if order.any and waits else all(waits))
        self.outcomes[node.name] = "Skipped"
        if not all(self._wanted) or not may_start:
            return node
        for _ in range(task.options.retries + 1):
            try:
                with building(None):  # tasks that the task itself calls are plain calls
                    made = [self._call(task, each) for each in arguments]
            except Exception as error:  # noqa: BLE001 - another call may ask for the failure; else `finish` raises it
                self.outcomes[node.name], self._failures[node.name] = "Failed", error
            else:
                self._failures.pop(node.name, None)
                self.outcomes[node.name] = "Completed"
                self.values[node.name] = made if loop is not None else made[0]
                break
        return node

    @contextmanager
    def when(self, condition: Condition) -> Iterator[None]:
        """See `pyroclast_client.flow_values.when`."""
        if condition.compared is not None:
            with self._when_compared(condition.nodes[0], *condition.compared):
                yield
            return
        if condition.target is None:
            refuse("a combined condition, or one by exit code, in a flow that runs here", "node.succeeded or node.failed")
        self._failures.pop(condition.target.name, None)  # the flow handles this failure
        self._last = self.outcomes[condition.target.name] in condition.phases
        holds = self._last
        with self._if(holds):
            yield
        self._last = holds

    @contextmanager
    def _when_compared(self, node: Node, operator: str, other: object) -> Iterator[None]:
        """As `when`, for a comparison of a value. As in a flow, a value of another kind has no order: the flow fails."""
        if node.name not in self.values:
            failure = self._failures.pop(node.name, None)
            raise FlowError(f"{node.name} is {self.outcomes[node.name]} and has no value to compare") from failure
        value = self.values[node.name]
        try:
            self._last = holds = bool(_OPERATORS[operator](value, other))
        except TypeError as error:
            raise FlowError(f"{node.name}: {error}") from None
        with self._if(holds):
            yield
        self._last = holds

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """See `pyroclast_client.flow_values.otherwise`."""
        with self._if(not self._last):
            yield

    @contextmanager
    def switch(self, node: Node) -> Iterator[Cases]:
        """See `pyroclast_client.flow_values.Node.switch`."""
        self._failures.pop(node.name, None)  # the flow handles this failure
        self._last = False

        @contextmanager
        def case(asked: Case) -> Iterator[None]:
            if asked.phase is None:
                refuse("a case by exit code, in a flow that runs here", "case(phase='Failed')")
            holds = not self._last and self.outcomes[node.name] == asked.phase
            self._last = self._last or holds
            with self._if(holds):
                yield

        yield Cases(case)

    @contextmanager
    def _if(self, holds: bool) -> Iterator[None]:
        self._wanted.append(holds)
        try:
            yield
        finally:
            self._wanted.pop()

    def finish(self, returned: object) -> Any:  # noqa: ANN401 - whatever the flow returns
        """Return the value of the node that the flow function returned.

        Raises:
            Exception: the first failed call that no condition of the flow has handled.
        """
        for error in self._failures.values():
            raise error
        return self.values.get(returned.name) if isinstance(returned, Node) else returned

    def _call(self, task: Definition[..., Any], arguments: Arguments) -> Any:  # noqa: ANN401 - whatever the function returns
        positional, keywords = self._real(arguments.positional), self._real(dict(arguments.keywords or {}))
        return task.function(*positional, **keywords)

    def _real(self, value: Any) -> Any:  # noqa: ANN401 - see above
        match value:
            case Node():
                return self.values[value.name]
            case Item():
                return self.values[value.node.name][value.number]
            case dict():
                return {key: self._real(each) for key, each in value.items()}
            case list() | tuple() | set():
                return type(value)(self._real(each) for each in value)
        return value


if TYPE_CHECKING:
    from pyroclast_client.flow_handles import Flow


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class FlowFunction(FlowDefinition[P, R]):
    """A function that builds a flow from calls of tasks."""

    def __init__(self, function: Callable[P, R], *, store: str | None, keep: bool) -> None:
        super().__init__(function, store=store, keep=keep)
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<flow {self.name}>"

    def call(self, *args: P.args, **kwargs: P.kwargs) -> FlowCall[R]:
        """Return a call that any client can submit."""
        return FlowCall(self, args, kwargs)

    def run(self, *args: P.args, **kwargs: P.kwargs) -> Flow[R]:
        """Run the flow in the cluster. The cluster runs it to its end, so this process may exit."""
        return defaults.client().submit(self.call(*args, **kwargs))

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the flow in this process, one call after another, for a debugger."""
        rehearsal = Rehearsal()
        with building(rehearsal):
            returned = self.function(*args, **kwargs)
        found: R = rehearsal.finish(returned)
        return found

    def to_yaml(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return manifests for `kubectl apply --server-side`. In one process, the same call returns the same text."""
        import yaml  # noqa: PLC0415 - few programs write files

        made = self.call(*args, **kwargs).compiled(defaults.client().asynchronous.surroundings)
        return str(yaml.safe_dump_all([made.secret, *made.templates, made.flow], sort_keys=False))


@overload
def flow(function: Callable[P, T], /) -> FlowFunction[P, T]: ...
@overload
def flow(*, store: str | None = None, keep: bool = True) -> Callable[[Callable[P, T]], FlowFunction[P, T]]: ...
def flow(function: Callable[..., Any] | None = None, /, *, store: str | None = None, keep: bool = True) -> Any:
    """Make a flow of a function.

    The tasks that the function calls become entries of a JobFlow, ordered by the values they exchange.

    In the function, `task(...)` returns a node and `task.each(list)` makes a loop. `task.after(node)(...)` makes an order without
    a value. `with pc.when(node.succeeded):` makes a choice.

    Args:
        function: the function. The node that it returns becomes the result of the flow.
        store: the URL at which values between tasks are stored. The client's store by default.
        keep: keep the Jobs after the flow has succeeded.
    """
    if function is not None:
        if not callable(function):
            raise Usage(f"flow: {function!r} is no function; write `@pc.flow` or `@pc.flow(store=...)`")
        return FlowFunction(function, store=store, keep=keep)
    return lambda found: FlowFunction(found, store=store, keep=keep)
