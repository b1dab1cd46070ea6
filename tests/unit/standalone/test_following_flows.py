"""The tree in which `pyroclast run` shows a flow, and how it is printed."""

from __future__ import annotations

import io
from typing import Any

import msgspec

from pyroclast.api.records import JobFlow
from pyroclast_standalone.following import MOST_LEVELS, Display, Progress, flow_progress, tree_lines


def flow(*entries: dict[str, Any], phase: str = "Running", **conditions: tuple[str, str]) -> JobFlow:
    told = {f"f-{name}": {"phase": phase, "message": message} for name, (phase, message) in conditions.items()}
    raw = {"metadata": {"name": "f"}, "spec": {"flows": list(entries)}, "status": {"state": {"phase": phase}, "conditions": told}}
    return msgspec.convert(raw, JobFlow)


def entry(name: str, *targets: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets)}, **more}


def test_flow_tree_shows_entries_below_their_dependencies() -> None:
    found = flow(
        entry("a"),
        entry("b", "a"),
        entry("d", "a", "c"),
        entry("c", "b"),
        entry("chosen"),
        entry("e", switch={"on": "a", "cases": [{"exitCode": 1, "entries": ["chosen"]}]}),
        a=("Completed", ""),
        b=("Waiting", "waits for a to complete"),
        chosen=("Skipped", "not chosen"),
    )
    assert tree_lines(flow_progress(found, {})) == [
        "          └─ a             Completed",
        "             ├─ b          Waiting     waits for a to complete",
        "             │  └─ c       Waiting",
        "             │     └─ d    Waiting",
        "             └─ e          Waiting",
        "                └─ chosen  Skipped     not chosen",
    ]
    assert str(flow_progress(found, {})) == "Running     1 of 6 entries completed, 1 skipped"


def test_flow_progress_shows_the_jobs_of_entries_and_loop_rounds() -> None:
    found = flow(entry("a"), entry("a-1"), entry("loop", **{"for": {"count": 2}}), a=("Running", ""), loop=("Running", "1 of 2"))
    jobs = {
        "f-a": Progress("Running", "t 1 Running"),
        "f-a-1": Progress("Pending", "waits"),
        "f-loop-1": Progress("Pending", "new"),
        "f-loop-0": Progress("Completed", ""),
    }
    assert flow_progress(found, jobs).branches == (
        ("a", Progress("Running", "t 1 Running")),
        ("a-1", Progress("Pending", "waits")),
        ("loop", Progress("Running", "1 of 2", (("round 0", jobs["f-loop-0"]), ("round 1", jobs["f-loop-1"])))),
    )


def test_retried_flow_entry_is_shown_as_retrying() -> None:
    found = flow(entry("a"), a=("Retrying", "again in 10 s"))
    assert flow_progress(found, {"f-a": Progress("Failed", "")}).branches == (("a", Progress("Retrying", "again in 10 s")),)


def test_flow_with_a_dependency_cycle_shows_all_entries() -> None:
    assert [name for name, _ in flow_progress(flow(entry("a", "b"), entry("b", "a")), {}).branches] == ["a", "b"]


def test_display_prints_only_changed_branches_and_all_branches_at_the_end() -> None:
    out, now = io.StringIO(), [0.0]
    display = Display(out, clock=lambda: now[0])
    waits, runs, done = (Progress(phase, "") for phase in ("Waiting", "Running", "Completed"))
    steps = [(0.0, runs, waits), (2.0, done, waits), (2.1, done, Progress("Waiting", "for it")), (4.0, done, runs)]
    shown = [display.show("n/f", Progress("Running", "", (("a", a), ("b", b)))) for now[0], a, b in steps]
    assert shown == [True, True, False, True]
    now[0] = 5.0
    display.show("n/f", Progress("Succeed", "", (("a", done), ("b", done))))
    assert out.getvalue().splitlines() == [
        "   0.0 s  n/f  Running",
        "          ├─ a  Running",
        "          └─ b  Waiting",
        "   2.0 s  n/f  Running",
        "          ├─ a  Completed",
        "   4.0 s  n/f  Running",
        "          └─ b  Running",
        "   5.0 s  n/f  Succeed",
        "          ├─ a  Completed",
        "          └─ b  Completed",
    ]


def test_flow_tree_of_a_long_chain_has_a_limited_depth() -> None:
    lines = tree_lines(flow_progress(flow(entry("e0"), *(entry(f"e{at}", f"e{at - 1}") for at in range(1, 1000))), {}))
    indents = [line.index("─ e") for line in lines]
    assert len(lines) == 1000
    assert indents == [indents[0] + 3 * min(at, MOST_LEVELS - 1) for at in range(1000)]
