"""Flows written in Python: `flow` makes a JobFlow and its JobTemplates from a function that calls tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from pyroclast_client import defaults
from pyroclast_client.errors import Usage
from pyroclast_client.flow_compilation import FlowCall, FlowDefinition
from pyroclast_client.nodes import building
from pyroclast_client.rehearsal import Rehearsal

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
