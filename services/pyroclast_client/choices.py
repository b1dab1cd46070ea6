"""The choice of a flow by an outcome: a `switch` as the flow function builds it, and as the JobFlow describes it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyroclast_client.documents import Document
from pyroclast_client.nodes import Case, Node


@dataclass(frozen=True)
class Choice:
    """A `switch`. The first case that matches is chosen, and `default` when no case matches."""

    name: str
    on: Node
    cases: list[Case] = field(default_factory=list)
    default: list[Node] = field(default_factory=list)


def choice_manifest(choice: Choice, names: Mapping[str, str]) -> Document:
    """Return the entry of the JobFlow for a choice. The entry has no template.

    `names` maps names of nodes to names of entries.
    """
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
