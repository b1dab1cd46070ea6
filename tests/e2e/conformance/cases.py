"""The table of requests: cases in YAML, each a few steps, and the statements that each covers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
_GROUPED = re.compile(r"(?P<group>[a-z0-9.-]+)/(?P<version>v\d[a-z0-9]*)/(?P<rest>.+)")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One request, or something else that is done (`kind`): open a watch, take events, wait, see what webhooks were asked."""

    kind: str
    target: str
    body: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    covers: tuple[str, ...]
    steps: tuple[Step, ...]
    file: str

    @property
    def id(self) -> str:
        return f"{self.file}: {self.name}"


def load_cases(*, aged: bool = False) -> list[Case]:
    """All cases, in the order of files and lines; with `aged` those for servers that have forgotten their first versions."""
    found: list[Case] = []
    for path in [FOLDER / "aged.yaml"] if aged else sorted((FOLDER / "cases").glob("*.yaml")):
        for document in yaml.safe_load(path.read_text()):
            covers = document.get("covers", ())
            covers = (covers,) if isinstance(covers, str) else tuple(covers)
            found.append(Case(document["case"], covers, tuple(map(_step, document["steps"])), path.stem))
    names = [case.id for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"cases of the same name: {sorted(twice)}")
    return found


def load_shared() -> list[dict[str, Any]]:
    """Objects that are there for all cases."""
    return list(yaml.safe_load_all((FOLDER / "shared.yaml").read_text()))


def load_statements() -> dict[str, str]:
    """What must be right, by the names that cases refer to."""
    chapters: Mapping[str, Mapping[str, str]] = yaml.safe_load((FOLDER / "statements.yaml").read_text())
    return {f"{chapter}.{name}": text for chapter, texts in chapters.items() for name, text in texts.items()}


def path_of(target: str, namespace: str) -> str:
    """The URL path and query that `target` is short for: `pods/p`, `apps/v1/deployments`, or absolute with `<ns>` in it."""
    target = target.replace("<ns>", namespace)
    if target.startswith("/"):
        return target
    grouped = _GROUPED.fullmatch(target)
    if grouped:
        return f"/apis/{grouped['group']}/{grouped['version']}/namespaces/{namespace}/{grouped['rest']}"
    return f"/api/v1/namespaces/{namespace}/{target}"


def _step(written: Sequence[Any] | Mapping[str, Any]) -> Step:
    if isinstance(written, list):
        method, target, *rest = written
        return Step(method, target, rest[0] if rest else None, rest[1] if len(rest) > 1 else {})
    options = dict(written)
    kind = next((key for key in options if key in _METHODS or key in ("watch", "events", "wait", "reviews", "sleep")), None)
    if kind is None:
        raise ValueError(f"a step does nothing: {written}")
    target = str(options.pop(kind))
    body = options.pop("body", None)
    for patch, content_type in PATCHES.items():
        if patch in options:
            body = options.pop(patch)
            options["content_type"] = content_type
    return Step(kind, target, body, options)
