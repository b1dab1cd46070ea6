"""Functions with options of how they are to run, and calls of them that have not been made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from pyroclast_client.options import TaskOptions
from pyroclast_client.payload import Arguments

__all__ = ["Call", "Definition", "SweepCall"]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - as short as in the standard library


class Definition(Generic[P, R]):
    """A function with options of how it is to run."""

    def __init__(self, function: Callable[P, R], options: TaskOptions) -> None:
        self.function = function
        self.options = options

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", "") or type(self.function).__name__)


@dataclass(frozen=True)
class Call(Generic[R]):
    """A call that has not been made: `client.submit` makes a Job of it, whose result has the type of the function's."""

    function: Callable[..., Any]
    arguments: Arguments
    options: TaskOptions
    name: str


@dataclass(frozen=True)
class SweepCall(Generic[R]):
    """Calls with several sets of arguments: one Job with a pod for each."""

    function: Callable[..., Any]
    arguments: tuple[Arguments, ...]
    options: TaskOptions
    name: str
