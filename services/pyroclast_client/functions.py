"""Functions as Jobs: `task` and what it makes of a function. The function itself stays callable."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast, overload

from pyroclast_client import defaults
from pyroclast_client.calls import Call, Definition, SweepCall
from pyroclast_client.errors import Usage
from pyroclast_client.nodes import Item, Items, Listening, Loop, Node, Order, current_builder, refuse
from pyroclast_client.options import TaskOptions, options_of
from pyroclast_client.payload import Arguments

if TYPE_CHECKING:
    from pyroclast_client.jobs import Job
    from pyroclast_client.sweeps import Sweep

__all__ = ["Task", "task"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - as short as in the standard library
T = TypeVar("T")

NO_ORDER: Final = Order()
GRID_TYPES: Final = (list, tuple, range)


class Task(Definition[P, R]):
    """A function with options of how it is to run. Called, it runs here; `run` and its like make Jobs of it."""

    def __init__(self, function: Callable[P, R], options: TaskOptions, order: Order = NO_ORDER) -> None:
        super().__init__(function, options)
        functools.update_wrapper(self, function)
        self.order = order

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here; in a flow, make a node of the call."""
        builder = current_builder()
        if builder is None:
            return self.function(*args, **kwargs)
        return cast("R", builder.add(self, (Arguments(args, kwargs),), self.order, None))

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.itemgetter(0), ((self.function,),)  # in a pod it is the plain function

    def using(self, **options: Any) -> Task[P, R]:  # noqa: ANN401 - the options of `task`
        """The same function with other options."""
        return Task(self.function, self.options.changed(options), self.order)

    def after(self, *nodes: object, any: bool = False) -> Task[P, R]:  # noqa: A002 - the word of the API
        """In a flow: the same function, to be called when these nodes have completed, or the first of them (`any`).

        `node.when_listening(PORT)` is enough from when its pods accept connections.
        """
        waited = tuple(each.node if isinstance(each, Listening) else each for each in nodes)
        if wrong := [each for each in waited if not isinstance(each, Node)]:
            refuse(f"after({wrong[0]!r}), which is no node", "after(node)")
        port = next((each.port for each in nodes if isinstance(each, Listening)), None)
        return Task(self.function, self.options, Order(cast("tuple[Node, ...]", waited), any, port))

    def each(self, items: object, *, count: int | None = None, parallel: int = 1, until: str = "") -> list[R]:
        """In a flow: the function for each item of a list, or of a node's value. Here: the list of its values.

        Args:
            items: a list, or a node whose value will be a sequence.
            count: the length of that sequence; for a node it must be known when the flow is made.
            parallel: how many rounds run at the same time.
            until: a CEL expression over the `rounds` that have ended and the `last` of them, which ends the loop early.
        """
        builder = current_builder()
        if builder is None:
            return [self.function(*args) for args in ((item,) for item in cast("Iterable[Any]", items))]  # type: ignore[call-arg]
        if isinstance(items, Node) and count is not None:
            items = items.items(count)
        if isinstance(items, Node):
            refuse(f"a loop over {items.name}, of whose value the length is not known", f"each({items.name}, count=COUNT)")
        values = (
            [Item(items.node, number) for number in range(items.count)]
            if isinstance(items, Items)
            else list(cast("Iterable[Any]", items))
        )
        arguments = tuple(Arguments((value,)) for value in values)
        return cast("list[R]", builder.add(self, arguments, self.order, Loop(parallel, until)))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """A call to be submitted by a client of one's choice: `await client.submit(train.call(1e-3))`."""
        return Call(self.function, Arguments(args, kwargs), self.options, self.name)

    def run(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Run the function as a Job: one pod, or all pods of its gang with the same arguments."""
        return defaults.client().submit(self.call(*args, **kwargs))

    def calls(self, *args: Any, **kwargs: Any) -> SweepCall[R]:  # noqa: ANN401 - lists of what the function takes
        """The calls of `sweep`, to be submitted by a client of one's choice."""
        return SweepCall(self.function, tuple(_grid(args, kwargs)), self.options, self.name)

    def sweep(self, *args: Any, **kwargs: Any) -> Sweep[R]:  # noqa: ANN401 - see above
        """Run the function for each value of an argument that is a list, of several lists for each combination.

        Other arguments are the same for all. To pass a list as it is, put it into a list of one.
        """
        return defaults.client().submit(self.calls(*args, **kwargs))

    def map(self, *iterables: Iterable[Any], in_order: bool = True) -> Iterator[R]:
        """The results for the items of the iterables, side by side, as `map` pairs them. The first error is raised.

        Args:
            iterables: one for each positional argument.
            in_order: in the order of the items; else as they come.
        """
        arguments = tuple(Arguments(tuple(items)) for items in zip(*iterables, strict=False))
        if not arguments:
            return iter(())
        sweep: Sweep[R] = defaults.client().submit(SweepCall(self.function, arguments, self.options, self.name))
        return sweep.values(in_order=in_order)


@overload
def task(function: Callable[P, T], /) -> Task[P, T]: ...
@overload
def task(**options: Any) -> Callable[[Callable[P, T]], Task[P, T]]: ...  # noqa: ANN401 - see below
def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a task: `@pc.task` or `@pc.task(gang=4, gpus=8)`.

    Args:
        function: the function.
        options: how it is to run.

            - image: with Python of the same minor version as here; else that of the client or of PYROCLAST_IMAGE.
            - cpu, memory, gpus: of each pod; gpus is a number of `nvidia.com/gpu`, or a dict of resources.
            - gang: how many pods run together, all or none; (least, most) for an elastic gang.
            - queue, priority: names of a Queue and of a PriorityClass.
            - retries: a gang starts again as a whole; each call of a sweep is tried again in its pod; an entry of a flow runs
              anew after `backoff`, `30s`, say, doubled each time.
            - timeout: seconds or a duration such as `2h`, for each pod.
            - checkpoint: called on SIGTERM with the arguments, or "method" for the `checkpoint` method of the callable. What it
              returns is kept in the store for the next pod of the index: a tuple of arguments, a dict of keywords, or a callable.
            - topology: name or number of the tier of HyperNodes that the gang may span.
            - env: variables; secrets: variables from Secrets, `{"TOKEN": "SECRET/KEY"}`; mounts: `{"/data": "CLAIM"}`.
            - pod: `metadata` and `spec` to merge into the pods; patch: fields to merge into the spec of the Job, in a flow the
              `patch` of the entry.
            - store: URL of where large code, results and checkpoints go.
            - serializer: "json" for results that are never unpickled.
            - root, include, exclude: the project's folder, and patterns of files in it that go along or stay.
            - python: the interpreter in the image, `python3` by default.
            - ttl: seconds after its end at which the Job is deleted.
    """
    if function is not None:
        if not callable(function):
            raise Usage(f"task: {function!r} is no function; write `@pc.task` or `@pc.task(gang=4)`")
        return Task(function, options_of(options))
    chosen = options_of(options)
    return lambda found: Task(found, chosen)


def _grid(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Arguments]:
    """The sets of arguments of a sweep."""
    named = [(None, value) for value in args] + list(kwargs.items())
    if not any(isinstance(value, GRID_TYPES) for _, value in named):
        raise Usage("sweep: no argument is a list; give one for what varies, `train.sweep(lr=[0.1, 0.01])`")
    choices = [value if isinstance(value, GRID_TYPES) else (value,) for _, value in named]
    for chosen in itertools.product(*choices):
        positional = tuple(value for (name, _), value in zip(named, chosen, strict=True) if name is None)
        keywords = {name: value for (name, _), value in zip(named, chosen, strict=True) if name is not None}
        yield Arguments(positional, keywords)
