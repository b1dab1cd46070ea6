"""The Dockerfile, its context and the bake file, read as a builder reads them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.unit.chart import render

__all__ = ["PACKAGES", "Instruction", "Stage", "argument_defaults", "bake", "context", "expand", "instructions", "stages"]

PACKAGES = frozenset(
    {
        "pyroclast",
        "pyroclast_admission",
        "pyroclast_board",
        "pyroclast_job_controller",
        "pyroclast_jobflow_controller",
        "pyroclast_recorder",
        "pyroclast_scheduler",
    }
)
"""What the wheel in the images holds."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its line in the file, its word, what follows it in one line, and the comment right above it."""

    line: int
    word: str
    text: str
    comment: str = ""

    @property
    def arguments(self) -> list[str]:
        """What follows it: the list of the JSON form, else the words."""
        return list(json.loads(self.text)) if self.text.startswith("[") else self.text.split()


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage by its name, what it starts from, and its own instructions."""

    name: str
    base: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, word: str) -> list[Instruction]:
        """Its instructions of one word."""
        return [each for each in self.instructions if each.word == word]

    @property
    def entrypoint(self) -> list[str]:
        """The command that a container of it runs."""
        return self.of("ENTRYPOINT")[-1].arguments


def instructions(text: str) -> list[Instruction]:
    """All instructions in order; lines that go on and comments are put together."""
    found: list[Instruction] = []
    parts: list[str] = []
    comment, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            comment = f"{comment} {stripped[1:].strip()}".strip() if not parts else comment
        elif not stripped:
            comment = "" if not parts else comment
        else:
            began = began if parts else number
            parts.append(stripped.removesuffix("\\").strip())
            if not stripped.endswith("\\"):
                word, _, rest = " ".join(parts).partition(" ")
                found.append(Instruction(began, word, rest.strip(), comment))
                parts, comment = [], ""
    return found


def stages(text: str, given: Mapping[str, str] | None = None) -> dict[str, Stage]:
    """The stages by name, in order; `given` are the arguments of the build."""
    found: dict[str, Stage] = {}
    arguments = {**argument_defaults(text), **(given or {})}
    for each in instructions(text):
        if each.word == "FROM":
            base, _, name = each.text.partition(" AS ")
            current = found[name] = Stage(name, expand(base, arguments))
        elif found:
            current.instructions.append(each)
    return found


def argument_defaults(text: str) -> dict[str, str]:
    """Arguments before the first stage, with their defaults."""
    found: dict[str, str] = {}
    for each in instructions(text):
        if each.word == "FROM":
            return found
        if each.word == "ARG":
            name, _, default = each.text.partition("=")
            found[name] = default
    return found


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`text` with $NAME and ${NAME} replaced; unknown names are empty, as a builder has it."""
    return re.sub(r"\$(?:{(\w+)}|(\w+))", lambda found: variables.get(found[1] or found[2], ""), text)


def context(root: Path) -> list[str]:
    """The files of a checkout that reach the builder: known to git, and let through by `.dockerignore`: the last match counts."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    patterns = [line for line in (root / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    return [file for file in files if (root / file).is_file() and _is_let_through(file, patterns)]


def _is_let_through(file: str, patterns: Sequence[str]) -> bool:
    parts = file.split("/")
    paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    ignored = False
    for pattern in patterns:
        plain = pattern.removeprefix("!").strip("/")
        anywhere = plain.removeprefix("**/")
        hit = any(fnmatch(path, plain) and path.count("/") == plain.count("/") for path in paths)
        if hit or (anywhere != plain and any(fnmatch(part, anywhere) for part in parts)):
            ignored = not pattern.startswith("!")
    return not ignored


def bake() -> dict[str, Any]:
    """The file that says how all images are built at once."""
    found: dict[str, Any] = json.loads((render.ROOT / "docker-bake.json").read_text())
    return found
