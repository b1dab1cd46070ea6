"""What every command prints, in every form of `-o`, of a cluster with something and with nothing in it.

`UPDATE_GOLDEN=1` writes the files anew; read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
import yaml

from pyroclast_cli import programs
from tests.unit.cli.golden.server import FIXED, Handler, serving

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FOLDER = Path(__file__).with_name("golden")
FORMS = (
    "table",
    "wide",
    "name",
    "json",
    "yaml",
    "csv",
    "jsonpath={range .items[*]}{.name} {end}",
    "custom-columns=N:.name",
    "xml",
)
LISTS = (
    "waiting",
    "running",
    "order -q research",
    "queues",
    "queues --tree",
    "queues --need",
    "jobs -A",
    "what-if --add cpu=8",
    "budget",
    "limits",
    "doctor",
    "nodes",
    "nodes --by zone",
    "nodes --by tier",
    "top jobs",
    "top tasks",
    "top queues",
    "top nodes",
    "timeline big",
    "tree etl",
    "array show sweep -n lab",
    "explain second",
    "explain huge",
    "explain typo",
    "explain big",
    "explain etl-report",
    "explain queue/research",
    "explain node/gpu-1",
    "history",
    "history big",
    "efficiency big",
    "report usage",
    "report cluster",
    "report waits",
    "report estimates",
    "report evictions",
    "report queues",
    "report nodes",
    "history --actions",
)
OTHERS = (
    "waiting -A --sort-by name",
    "waiting -q research -u bob",
    "waiting -l team=none",
    "waiting --sort-by size",
    "waiting --limit 1 --no-headers",
    "running -l team=vision",
    "array show big",
    "array show big -n team",
    "array cancel sweep 5-3 -n lab",
    "array cancel sweep 0-100:2 -n lab",
    "array cancel sweep 20001 -n lab",
    "array cancel sweep 0-8 -n lab",
    "explain nothing",
    "explain queue/nothing",
    "explain node/nothing",
    "order",
    "order nothing",
    "tree nothing",
    "timeline nothing",
    "history nothing",
    "history --limit 99999",
    "nodes -l zone=a",
    "queues -q research --sort-by allocated",
    "queues -l team=none",
    "budget -q nothing",
    "limits research --sort-by person",
    "limits nothing",
    "limits one two",
    "budget -q research --sort-by left",
    "commands",
)
ORIGINAL = (
    "vcctl job list -n team",
    "vcctl job view -N big -n team",
    "vcctl job view -N sweep -n lab",
    "vcctl queue list",
    "vcctl queue get -n research",
    "vcctl jobflow list -n team",
    "vcctl jobflow describe -N etl -n team",
    "vcctl jobtemplate list -n team",
    "vcctl pod list -n team",
    "vjobs -N team",
    "vqueues",
)
SLURM = (
    *("squeue -h", "squeue --all-namespaces -t all", "squeue -p research -t PD", "squeue -t none"),
    *("sacct", "sacct -P -n", "sacct -s F", "sinfo", "sinfo -h -p research", "scancel", "scancel nothing"),
)
PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "vcctl": programs.vcctl,
    "vjobs": programs.vjobs,
    "vqueues": programs.vqueues,
}


@pytest.fixture(scope="module")
def full() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def empty() -> Iterator[str]:
    with serving(is_empty=True) as url:
        yield url


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No kubeconfig of whoever runs the tests, times of one zone, and a clock that stands still."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    for name in ("KUBECONFIG", "PYROCLAST_RECORDER", "PYROCLAST_BOARD"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    with time_machine.travel(NOON, tick=False):
        yield
    monkeypatch.undo()
    time.tzset()


def transcript(capsys: pytest.CaptureFixture[str], server: str, command: str) -> str:
    """The command, what it prints, and how it ends."""
    program, *words = shlex.split(command)
    namespace = ["-n", "team"] if program == "vcctl" and _takes_namespace(words) else []
    status = PROGRAMS[program]([*words, *namespace, "--master", server] if words != ["commands"] else words)
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err, "no colour where nobody looks"
    ended = f"{printed.err.replace(server, 'SERVER')}[exit status {status}]\n" if status or printed.err else ""
    return f"$ {command}\n{printed.out.replace(server, 'SERVER')}{ended}\n"


def _takes_namespace(words: list[str]) -> bool:
    """Whether a command of ours is about a namespace that it does not name."""
    return words[0] in {"waiting", "running", "timeline", "tree", "explain", "history", "efficiency"} or words[:2] in (
        ["top", "jobs"],
        ["top", "tasks"],
        ["top", "queues"],
    )


def compare(name: str, text: str) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def title(command: str) -> str:
    return command.replace(" ", "-").replace("/", "-").replace("--", "-")


@pytest.mark.parametrize("command", LISTS)
def test_list_commands_match_the_golden_output_in_every_output_format(
    command: str, full: str, empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [transcript(capsys, full, f"vcctl {command} -o {shlex.quote(form)}") for form in FORMS]
    told += ["# in an empty cluster\n", *(transcript(capsys, empty, f"vcctl {command} -o {shlex.quote(form)}") for form in FORMS)]
    compare(title(command), "".join(told))


def test_commands_with_other_flags_match_the_golden_output(full: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare("other-flags", "".join(transcript(capsys, full, f"vcctl {command}") for command in OTHERS))


def test_volcano_compatible_commands_match_the_golden_output(full: str, empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = [transcript(capsys, full, command) for command in ORIGINAL]
    told += ["# in an empty cluster\n", *(transcript(capsys, empty, command) for command in ORIGINAL)]
    compare("original", "".join(told))


def use_config(url: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have the programs use a kubeconfig with the server and the namespace team."""
    cluster, context = {"name": "c", "cluster": {"server": url}}, {"name": "c", "context": {"cluster": "c", "namespace": "team"}}
    (folder / "config").write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c"}))
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))


def test_commands_of_slurm_match_the_golden_output(
    full: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_config(full, monkeypatch, tmp_path)
    monkeypatch.setenv("PYROCLAST_RECORDER", full)
    told = []
    for command in SLURM:
        status = programs.vcctl(shlex.split(command))
        printed = capsys.readouterr()
        told.append(f"$ {command}\n{printed.out}{printed.err}[exit status {status}]\n\n")
    compare("slurm", "".join(told))


@pytest.mark.parametrize("may_list_all", [True, False])
def test_my_lists_the_own_jobs_and_reads_each_list_once(
    may_list_all: bool, full: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_config(full, monkeypatch, tmp_path)
    everywhere, paths, answer = "/apis/batch.volcano.sh/v1alpha1/jobs", [], Handler.do_GET

    def limited(handler: Handler) -> None:
        paths.append(path := handler.path.partition("?")[0])
        if path == everywhere and not may_list_all:
            handler.answer(403, {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403})
        else:
            answer(handler)

    monkeypatch.setattr(Handler, "do_GET", limited)
    assert programs.vcctl(["my", "-o", "name"]) == 0

    assert capsys.readouterr().out == "vcjob.batch.volcano.sh/big\n"
    own = [] if may_list_all else ["/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs"]
    assert [path for path in paths if path.endswith("/jobs")] == [everywhere, *own]


def test_explain_names_a_node_that_is_away_also_when_another_node_of_the_job_was_deleted(
    full: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Handler.do_GET
    status = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T11:00:00Z"}]}
    objects = yaml.safe_load(FIXED.read_text())["objects"]
    pods = [each for each in objects if each["kind"] == "Pod" and each["metadata"]["name"].startswith("big-worker-")]
    pods[0]["spec"] = {**pods[0]["spec"], "nodeName": "deleted"}

    def changed(handler: Handler) -> None:
        path = handler.path.partition("?")[0]
        if path == "/api/v1/nodes/gpu-1":
            handler.answer(200, {"metadata": {"name": "gpu-1"}, "status": status})
        elif path == "/api/v1/namespaces/team/pods":
            handler.answer(200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": pods})
        else:
            answer(handler)

    monkeypatch.setattr(Handler, "do_GET", changed)
    assert programs.vcctl(["explain", "big", "-n", "team", "--master", full]) == 0
    assert "vcctl explain node/gpu-1" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["waiting", "explain second", "nodes", "job list -n team"])
def test_command_output_does_not_depend_on_the_terminal_width(
    command: str, full: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for columns in ("20", "80", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        told.append(transcript(capsys, full, f"vcctl {command}"))
    assert len(set(told)) == 1
