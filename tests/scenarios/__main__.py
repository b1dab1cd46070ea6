"""`python -m tests.scenarios FILE…`: run files of cases; a line per case with what differed, and last `N of M cases pass`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.scenarios import quotas, topologies

from .runner import Result, cases_of, run
from .tables import TABLE_KINDS

HERE = Path(__file__).parent


def load(path: Path) -> list[dict[str, Any]]:
    """The cases of a YAML list; of a Markdown page those of its fenced blocks."""
    text = path.read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if path.suffix == ".md" else [text]
    found = [yaml.safe_load(block) for block in blocks]
    return [case for block in found if isinstance(block, list) for case in block]


def results(paths: list[Path]) -> Iterator[Result]:
    """The result of each case and variant."""
    for path in paths:
        for case in load(path):
            for name, variant in cases_of(case):
                try:
                    yield from _of(name, variant)
                except Exception as error:  # noqa: BLE001 - a case that cannot be run is one that fails
                    yield Result(name, [f"{type(error).__name__}: {error}"])


def _of(name: str, case: dict[str, Any]) -> Iterator[Result]:
    kind = case.get("kind")
    if topologies.is_topology(case):
        yield from topologies.rows_of(name, case)
        return
    if topologies.is_score(case):
        yield from topologies.score(name, case)
        return
    if quotas.is_quota(case):
        yield from quotas.quota(name, case)
        return
    if kind is None:
        yield run(name, case)
    elif kind in TABLE_KINDS:
        yield from TABLE_KINDS[kind](name, case)
    else:
        yield Result(name, missing=[f"table {kind}"])


def main(arguments: list[str]) -> int:
    """Run and print."""
    paths = [Path(argument) for argument in arguments] or sorted(HERE.glob("cases/*.yaml"))
    done = list(results(paths))
    for result in done:
        if result.missing:
            print(f"{result.name}: not covered yet ({', '.join(result.missing)})")
        else:
            print(f"{result.name}: {'; '.join(result.differences) or 'ok'}")
    ran = [result for result in done if not result.missing]
    passed = sum(not result.differences for result in ran)
    print(f"{len(done) - len(ran)} cases not covered yet")
    print(f"{passed} of {len(ran)} cases pass")
    return 0 if passed == len(done) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
