"""`python -m tests.e2e.conformance --real KUBECONFIG --ours KUBECONFIG [--only WORD]`, `--real … --record`, or `--matrix`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.conformance import compare, matrix
from tests.e2e.conformance.cases import load_cases
from tests.e2e.conformance.commands import compared_commands, load_commands, printed
from tests.e2e.conformance.run import compared, transcripts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.conformance", description=__doc__)
    parser.add_argument("--real", type=Path, help="kubeconfig of a real cluster")
    parser.add_argument("--ours", type=Path, help="kubeconfig of the embedded server")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--aged", action="store_true", help="the cases for servers that have forgotten their first versions")
    parser.add_argument("--record", action="store_true", help="keep what the real cluster answers, for machines without one")
    parser.add_argument("--matrix", action="store_true", help="print which statement has which case")
    parser.add_argument("--show", action="store_true", help="print the transcripts")
    arguments = parser.parse_args()
    if arguments.matrix:
        print(matrix.written())
        return 0
    return asyncio.run(_record(arguments.real) if arguments.record else _run(arguments))


async def _record(real: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        answers = {case.id: found async for case, (found,) in transcripts({"real": real}, load_cases(), Path(folder))}
    answers |= {each.id: found async for each, (found,) in printed([real], load_commands())}
    compare.keep(answers)
    return 0


async def _run(arguments: argparse.Namespace) -> int:
    cases = [case for case in load_cases(aged=arguments.aged) if arguments.only in case.id]
    commands = [each for each in load_commands() if arguments.only in each.id]
    started, known = time.monotonic(), {(entry.case, entry.path) for entry in compare.load_known()}
    unequal = 0
    with tempfile.TemporaryDirectory() as folder:
        async for case, real, ours in compared(arguments.real, arguments.ours, cases, Path(folder)):
            found = [one for one in compare.differences(real, ours) if (case.id, one.path) not in known]
            unequal += bool(found)
            if arguments.show:
                _show(case.id, real, ours)
            if found:
                print(f"{case.id}: differs", *(f"    {one}" for one in found), sep="\n", flush=True)
        async for each, real, ours in compared_commands(arguments.real, arguments.ours, commands):
            found = [one for one in compare.differences(real, ours) if (each.id, one.path) not in known]
            unequal += bool(found)
            if arguments.show:
                _show(each.name, real, ours)
            if found:
                print(f"commands: {each.name}: differs", *(f"    {one}" for one in found), sep="\n", flush=True)
    total = len(cases) + len(commands)
    print(f"{total - unequal} of {total} cases equal, {time.monotonic() - started:.0f} s")
    return int(unequal > 0)


def _show(name: str, *transcripts: Sequence[object]) -> None:
    for side, transcript in zip(("real", "ours"), transcripts, strict=True):
        print(f"--- {name} ({side})", json.dumps(transcript, indent=1), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
