"""Where two transcripts differ, which differences are known, and the transcripts of a real server that are kept."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RECORDED = Path(__file__).parent / "recorded.json.gz"
_MEANS_NOTHING = (None, {}, [], "")  # a key that is absent says the same as an empty one


@dataclass(frozen=True, slots=True)
class Difference:
    """`path` leads there from the transcript: `2.body.message`."""

    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path}\n      real: {self.real!r}\n      ours: {self.ours!r}"


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that stays, and why."""

    case: str
    path: str
    why: str


def differences(real: Any, ours: Any, path: str = "") -> Iterator[Difference]:
    """Every place where the answers differ."""
    if real == ours or (real in _MEANS_NOTHING and ours in _MEANS_NOTHING):
        return
    if isinstance(real, dict) and isinstance(ours, dict):
        if real.get("status") != ours.get("status") and "request" in real:
            yield Difference(f"{path}.status", _verdict(real), _verdict(ours))  # what follows from it tells nothing more
            return
        for key in sorted({*real, *ours}):
            yield from differences(real.get(key), ours.get(key), f"{path}.{key}" if path else key)
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours) and not _are_lines(real):
        for index, (one, other) in enumerate(zip(real, ours, strict=True)):
            yield from differences(one, other, f"{path}.{index}" if path else str(index))
    else:
        yield Difference(path, real, ours)


def _are_lines(value: list[Any]) -> bool:
    """Whether it is what a command printed, which is best shown whole."""
    return bool(value) and all(isinstance(line, str) for line in value)


def _verdict(answer: dict[str, Any]) -> str:
    body = answer.get("body")
    said = f"{body.get('reason', '')}: {body.get('message', '')}" if isinstance(body, dict) and "message" in body else body
    return f"{answer.get('request')}: {answer.get('status')} {said}"


def load_known() -> list[Known]:
    """The differences that stay."""
    document = yaml.safe_load((Path(__file__).parent / "differences.yaml").read_text()) or []
    return [Known(**entry) for entry in document]


def keep(answers: dict[str, Any]) -> None:
    """Write the transcripts of a real server, by case."""
    text = json.dumps(answers, indent=0, sort_keys=True)
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))


def kept() -> dict[str, Any]:
    """The transcripts that `keep` wrote."""
    found: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return found
