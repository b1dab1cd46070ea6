"""Choices of a flow by an outcome: `switch` as it is gathered while the flow's function runs, and as JobFlow says it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from pyroclast_client.documents import Document
from pyroclast_client.nodes import Node, refuse

__all__ = ["Case", "Cases", "Choice", "choice_manifest"]

PHASES: Final = ("Completed", "Failed", "Terminated", "Aborted")
"""How a Job ends."""


@dataclass(frozen=True)
class Case:
    """An outcome, by phase or by exit code, and the nodes that run then."""

    phase: str | None = None
    exit_code: int | None = None
    nodes: list[Node] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    """A `switch`: the first case that holds counts, and `default` when none does."""

    name: str
    on: Node
    cases: list[Case] = field(default_factory=list)
    default: list[Node] = field(default_factory=list)


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


def choice_manifest(choice: Choice, names: Mapping[str, str]) -> Document:
    """The entry of the JobFlow, which has no template and only chooses. `names`: of entries, by those of their nodes."""
    cases = [{**dict(_outcome(case)), "entries": [names[node.name] for node in case.nodes]} for case in choice.cases]
    switch: Document = {"on": names[choice.on.name], "cases": cases}
    if choice.default:
        switch["default"] = [names[node.name] for node in choice.default]
    return {"name": names[choice.name], "switch": switch}


def _outcome(case: Case) -> Iterator[tuple[str, str | int]]:
    if case.phase is not None:
        yield "phase", case.phase
    if case.exit_code is not None:
        yield "exitCode", case.exit_code
