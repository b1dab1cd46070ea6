"""The run options of a function, which are checked when they are given, and calls of such functions that have not run yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic, ParamSpec, TypeVar

from pyroclast.resources import quantity
from pyroclast_client.errors import Usage
from pyroclast_client.payload import Arguments

SERIALIZERS: Final = ("pickle", "json")
DRIVER: Final = "driver"
A_DAY: Final = 86_400
GPU: Final = "nvidia.com/gpu"
_GPUS: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,62}:)?[0-9]{1,6}|[A-Za-z][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Gang:
    """The size of a gang: `size` pods, of which at least `least` must fit before any of them starts."""

    size: int = 1
    least: int = 1


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The run options of a function. The docstring of `task` describes each option."""

    image: str | None = None
    cpu: float | str | None = None
    memory: str | None = None
    gpus: int | str | Mapping[str, int] | None = None
    gang: Gang = field(default_factory=Gang)
    queue: str | None = None
    retries: int = 0
    idempotent: bool = False
    backoff: str | None = None
    timeout: float | str | None = None
    checkpoint: object = None
    topology: str | int | None = None
    priority: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    patch: Mapping[str, Any] = field(default_factory=dict)
    store: str | None = None
    serializer: str = "pickle"
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    root: str | None = None
    packages: str | None = None
    python: str | None = None
    ttl: int | None = A_DAY
    until: str | None = None
    parallel: int | None = None

    @property
    def gpu_type(self) -> str:
        """The type in `gpus`, such as `a100` of `a100:2`; empty without one."""
        return self.gpus.rpartition(":")[0] if isinstance(self.gpus, str) else ""

    @property
    def devices(self) -> Mapping[str, int]:
        """The requested devices by resource."""
        if isinstance(self.gpus, Mapping):
            return self.gpus
        count = int(self.gpus.rpartition(":")[2]) if isinstance(self.gpus, str) else self.gpus
        return {GPU: count} if count else {}

    def changed(self, given: Mapping[str, Any]) -> TaskOptions:
        """Return the options with some values replaced."""
        return replace(self, **_checked(given)) if given else self


def options_of(given: Mapping[str, Any]) -> TaskOptions:
    """Return the options from keyword arguments."""
    return TaskOptions(**_checked(given))


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    known = {each.name for each in fields(TaskOptions)}
    if unknown := sorted(set(given) - known):
        raise Usage(f"task: {', '.join(unknown)}: no such option; there are {', '.join(sorted(known))}")
    checked = dict(given)
    _check_choices(checked)
    if "gang" in checked and not isinstance(checked["gang"], Gang):
        checked["gang"] = _gang(checked["gang"])
    for name in ("cpu", "memory"):
        _check_amount(name, checked.get(name))
    for name, form in (
        ("env", "{NAME: text}"),
        ("secrets", '{NAME: "SECRET/KEY"}'),
        ("mounts", '{PATH: "CLAIM"}'),
        ("pod", "a dict"),
        ("patch", "a dict"),
    ):
        if name in checked and not isinstance(checked[name], Mapping):
            raise Usage(f"task: {name}: {type(checked[name]).__name__} is not {form}")
    for variable, reference in checked.get("secrets", {}).items():
        if str(reference).count("/") != 1:
            raise Usage(f'task: secrets: {variable} must be "SECRET/KEY", the names of a Secret and of a key in it')
    return checked


def _check_choices(checked: dict[str, Any]) -> None:
    if checked.get("serializer", "pickle") not in SERIALIZERS:
        raise Usage(f"task: serializer: {checked['serializer']!r} is none of {', '.join(SERIALIZERS)}")
    retries = checked.get("retries", 0)
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise Usage(f"task: retries: {retries!r} is no number of tries; give 0 or more")
    if (until := checked.get("until")) not in {None, DRIVER}:
        raise Usage(f'task: until: {until!r} is unknown; "driver" ends the Job soon after this program has ended')
    parallel = checked.get("parallel")
    if parallel is not None and (not isinstance(parallel, int) or isinstance(parallel, bool) or parallel < 1):
        raise Usage(f"task: parallel: {parallel!r} is no number of pods; give 1 or more")
    if isinstance(gpus := checked.get("gpus"), str):
        if not _GPUS.fullmatch(gpus):
            raise Usage(f'task: gpus: {gpus!r} is no amount; give a number, or a type with a number such as "a100:2"')
        checked["gpus"] = gpus if ":" in gpus else int(gpus) if gpus.isdigit() else f"{gpus}:1"


_SMALLEST_MEMORY: Final = 1 << 20
"""Bytes: a request for less memory is a number whose unit was forgotten."""


def _check_amount(name: str, given: object) -> None:
    example = "a number of cores such as 0.5, or `500m`" if name == "cpu" else "text with a unit, such as `4Gi`"
    if given is None:
        return
    try:
        amount = quantity.parse(str(given))
    except ValueError:
        raise Usage(f"task: {name}: {given!r} is no amount; give {example}") from None
    if isinstance(given, bool) or amount <= quantity.ZERO:
        raise Usage(f"task: {name}: {given!r} is no amount above 0; give {example}")
    if name == "memory" and amount < quantity.parse(str(_SMALLEST_MEMORY)):
        raise Usage(f"task: memory: {given!r} is {given} bytes; give {example}")


def _gang(given: object) -> Gang:
    match given:
        case bool():
            pass
        case int() if given >= 1:
            return Gang(given, given)
        case (int() as least, int() as size) if 1 <= least <= size:
            return Gang(size, least)
    raise Usage(f"task: gang: {given!r} is no size; give a number of pods, or (least, most) for an elastic one")


P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - as short as in the standard library


def function_name(function: Callable[..., Any] | None) -> str:
    """Return the name of the function for messages and object names."""
    return str(getattr(function, "__name__", "") or type(function).__name__)


class Definition(Generic[P, R]):
    """A function with its run options."""

    def __init__(self, function: Callable[P, R], options: TaskOptions) -> None:
        self.function = function
        self.options = options

    @property
    def name(self) -> str:
        """The name of the function."""
        return function_name(self.function)


@dataclass(frozen=True)
class Call(Generic[R]):
    """A call that has not run yet. `client.submit` creates a Job for it. The result of the Job has the function's return type."""

    function: Callable[..., Any]
    arguments: Arguments
    options: TaskOptions
    name: str


@dataclass(frozen=True)
class SweepCall(Generic[R]):
    """Calls of one function with several sets of arguments: one Job with a pod for each set.

    Without a `function`, the arguments of each call are the pickles of its function and of its arguments.
    """

    function: Callable[..., Any] | None
    arguments: tuple[Arguments, ...]
    options: TaskOptions
    name: str
    executor: str = ""
