"""Functions with run options, and calls of such functions that have not run yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from pyroclast_client.options import TaskOptions
from pyroclast_client.payload import Arguments

P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - as short as in the standard library


class Definition(Generic[P, R]):
    """A function with its run options."""

    def __init__(self, function: Callable[P, R], options: TaskOptions) -> None:
        self.function = function
        self.options = options

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", "") or type(self.function).__name__)


@dataclass(frozen=True)
class Call(Generic[R]):
    """A call that has not run yet. `client.submit` creates a Job for it. The result of the Job has the function's return type."""

    function: Callable[..., Any]
    arguments: Arguments
    options: TaskOptions
    name: str


@dataclass(frozen=True)
class SweepCall(Generic[R]):
    """Calls of one function with several sets of arguments: one Job with a pod for each set."""

    function: Callable[..., Any]
    arguments: tuple[Arguments, ...]
    options: TaskOptions
    name: str
