"""Functions as Jobs: `task` adds run options to a function. The function itself stays callable."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast, overload

from pyroclast_client import defaults
from pyroclast_client.errors import Usage
from pyroclast_client.flow_values import Item, Items, Listening, Loop, Node, Order, current_builder, refuse
from pyroclast_client.options import Call, Definition, SweepCall, TaskOptions, options_of
from pyroclast_client.payload import Arguments

if TYPE_CHECKING:
    from pyroclast_client.jobs import Job
    from pyroclast_client.sweeps import Sweep


P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - as short as in the standard library
T = TypeVar("T")

NO_ORDER: Final = Order()
NUMPY: Final = "numpy"


class Task(Definition[P, R]):
    """A function with its run options. A plain call runs in this process. `run`, `sweep` and `map` create Jobs."""

    def __init__(self, function: Callable[P, R], options: TaskOptions, order: Order = NO_ORDER) -> None:
        super().__init__(function, options)
        functools.update_wrapper(self, function)
        self.order = order

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process. Inside a flow, return the node of the call."""
        builder = current_builder()
        if builder is None:
            return self.function(*args, **kwargs)
        return cast("R", builder.add(self, (Arguments(args, kwargs),), self.order, None))

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.itemgetter(0), ((self.function,),)  # a pod unpickles the plain function

    def using(self, **options: Any) -> Task[P, R]:  # noqa: ANN401 - the options of `task`
        """Return the same function with other options."""
        return Task(self.function, self.options.changed(options), self.order)

    def after(self, *nodes: object, any: bool = False) -> Task[P, R]:  # noqa: A002 - the name in the API
        """Inside a flow, return the function so that it is called after all `nodes` have completed.

        With `any`, the first completed node is enough. For `node.when_listening(PORT)` the call needs no completion: it starts
        when the pods of the node accept connections.
        """
        waited = tuple(each.node if isinstance(each, Listening) else each for each in nodes)
        if wrong := [each for each in waited if not isinstance(each, Node)]:
            refuse(f"after({wrong[0]!r}), which is no node", "after(node)")
        port = next((each.port for each in nodes if isinstance(each, Listening)), None)
        return Task(self.function, self.options, Order(cast("tuple[Node, ...]", waited), any, port))

    def each(self, items: object, *, count: int | None = None, parallel: int = 1, until: str = "") -> list[R]:
        """Inside a flow, call the function for each item of a list or of a node's value. Outside, return the list of its values.

        Args:
            items: a list, or a node whose value will be a sequence.
            count: the length of the sequence, which is required for a node.
            parallel: how many rounds run at the same time.
            until: a CEL expression that ends the loop early. It may use the ended `rounds` and the `last` round.
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
        """Return a call that any client can submit: `await client.submit(train.call(1e-3))`."""
        return Call(self.function, Arguments(args, kwargs), self.options, self.name)

    def run(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Run the function as a Job: one pod, or a gang whose pods all have the same arguments."""
        return defaults.client().submit(self.call(*args, **kwargs))

    def calls(self, *args: Any, **kwargs: Any) -> SweepCall[R]:  # noqa: ANN401 - lists of what the function takes
        """Return the calls of `sweep`, which any client can submit."""
        return SweepCall(self.function, tuple(_grid(args, kwargs)), self.options, self.name)

    def sweep(self, *args: Any, **kwargs: Any) -> Sweep[R]:  # noqa: ANN401 - see above
        """Run the function for each value of an argument that is a list, or for each combination of several lists.

        Tuples, ranges, generators and arrays of numpy, by their first axis, vary too. Other arguments are the same for all
        calls. To pass a list itself as one argument, wrap it in another list. `using(parallel=10)` limits how many calls run.
        """
        return defaults.client().submit(self.calls(*args, **kwargs))

    def map(self, *iterables: Iterable[Any], in_order: bool = True) -> Iterator[R]:
        """Return the results for the items of the iterables, paired as `map` pairs them. The calls run in parallel.

        The first error is raised.

        Args:
            iterables: one iterable for each positional argument.
            in_order: yield in the order of the items. Otherwise yield each result when it arrives.
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
    """Make a task of a function: `@pc.task` or `@pc.task(gang=4, gpus=8)`.

    Args:
        function: the function.
        options: the run options below.

    - image: an image with the same minor version of Python as the client. By default that of the client or of PYROCLAST_IMAGE.
    - cpu, memory, gpus: the requests of each pod. `gpus` is a number of `nvidia.com/gpu`, a type with a number such as
      "a100:2", which nodes must name in the label `nvidia.com/gpu.product`, or a dict of resources.
    - gang: how many pods start together, all or none. A pair (least, most) makes an elastic gang.
    - queue, priority: the names of a Queue and of a PriorityClass.
    - retries: how often a failed call is tried again. A gang restarts as a whole. A call of a sweep is tried again in its pod, or
      in a new one when its process was killed. A call over its timeout, or whose result cannot be pickled, is not tried again.
      An entry of a flow runs again after `backoff`, such as `30s`, which doubles each time.
    - idempotent: whether a call that was evicted or lost its node starts again, also without `retries`. Sweeps always do.
    - timeout: the limit for each pod, in seconds or as a duration such as `2h`. A call over it raises `TimedOut`.
    - checkpoint: a function that is called on SIGTERM with the arguments, or "method" for the callable's `checkpoint` method.
      Its return value is stored for the next pod of the index: a tuple of arguments, a dict of keywords, or a callable.
    - topology: the name or number of the highest tier of HyperNodes that the gang may span.
    - env: environment variables. secrets: variables from Secrets, `{"TOKEN": "SECRET/KEY"}`. mounts: `{"/data": "CLAIM"}`.
    - pod: `metadata` and `spec` that are merged into the pods. patch: fields that are merged into the spec of the Job. In
      a flow they are the `patch` of the entry.
    - store: the URL at which large code, results and checkpoints are stored.
    - serializer: "json" for results that are never unpickled.
    - root, include, exclude: the project's folder, and patterns of its files that are sent or left out. With `include`, the
      working folder of the function has these files.
    - packages: "lock" installs in the pods what `requirements.lock`, `requirements.txt` or `uv.lock` names; or another such file.
    - python: the interpreter in the image, `python3` by default.
    - ttl: the seconds after its end at which the Job is deleted, a day by default. None keeps it, as do flows.
    - until: "driver" ends the Job three minutes after this program has ended or lost its connection.
    - parallel: how many calls of a sweep run at the same time. All by default.
    """
    if function is not None:
        if not callable(function):
            raise Usage(f"task: {function!r} is no function; write `@pc.task` or `@pc.task(gang=4)`")
        return Task(function, options_of(options))
    chosen = options_of(options)
    return lambda found: Task(found, chosen)


def _choices(value: object) -> list[Any] | None:
    """Return the values over which a sweep varies an argument. None for one that is the same for all calls."""
    if isinstance(value, list | tuple | range | Iterator):
        return list(value)
    is_array = type(value).__module__ == NUMPY and type(value).__name__ == "ndarray"
    return list(cast("Iterable[Any]", value)) if is_array and value.ndim else None  # type: ignore[attr-defined]


def _grid(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Arguments]:
    """Return the sets of arguments of a sweep."""
    named = [(None, value) for value in args] + list(kwargs.items())
    varied = [_choices(value) for _, value in named]
    if all(each is None for each in varied):
        raise Usage("sweep: no argument is a list; give one for what varies, `train.sweep(lr=[0.1, 0.01])`")
    choices = [(value,) if each is None else each for (_, value), each in zip(named, varied, strict=True)]
    for chosen in itertools.product(*choices):
        positional = tuple(value for (name, _), value in zip(named, chosen, strict=True) if name is None)
        keywords = {name: value for (name, _), value in zip(named, chosen, strict=True) if name is not None}
        yield Arguments(positional, keywords)
