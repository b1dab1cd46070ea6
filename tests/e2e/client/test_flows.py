"""Flows of the Python client, run by real processes of a local control plane."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyroclast.client as pc
from pyroclast_client import errors
from pyroclast_client.planes import LocalClient
from tests.e2e.support.cluster import wait_until

pytestmark = pytest.mark.timeout(600)  # they start many processes


@pytest.fixture(scope="module")
def local() -> Iterator[LocalClient]:
    with pc.local(nodes=2) as client:
        yield client


@pc.task
def extract(day: str) -> list[int]:
    return [int(each) for each in day.split("-")]


@pc.task
def clean(part: int) -> int:
    print("cleaning", part)
    return part * 2


@pc.task(gang=2)
def train(parts: list[int]) -> int:
    return sum(parts) + pc.rank()


@pc.task
def flaky(marker: str) -> str:
    if not os.path.exists(marker):
        open(marker, "w").close()
        raise RuntimeError("the first time")
    return "the second time"


@pc.task
def report(*values: object) -> str:
    return f"report of {values}"


@pc.flow
def nightly(day: str, marker: str):
    raw = extract(day)
    parts = clean.each(raw.items(3), parallel=2)
    with pc.when(parts.succeeded):
        fit = train(parts)
    with pc.otherwise():
        report("bad")
    again = flaky.using(retries=2, backoff="1s").after(raw)(marker)
    return report(fit, {"again": again})


def test_flow_with_values_loops_choices_and_retries_completes(local: pc.Client, tmp_path: Path) -> None:
    flow = nightly.run("2026-11-24", str(tmp_path / "marker"))
    assert flow.result(180) == "report of (4122, {'again': 'the second time'})"
    status = flow.status
    assert status.phase == "Succeed"
    assert {name: status.entries[name] for name in ("extract", "clean-0", "clean-2", "train", "report", "report-2")} == {
        "extract": "Completed",
        "clean-0": "Completed",
        "clean-2": "Completed",
        "train": "Completed",
        "report": "Skipped",
        "report-2": "Completed",
    }
    assert flow["clean", 1].logs() == "cleaning 11"
    assert flow["train"].results() == [4122, 4123]
    with pytest.raises(errors.Usage, match="no entry fit; it has"):
        flow["fit"]
    script = f"""
import pyroclast.client as pc
with pc.Client(namespace="default", kubeconfig={local.kubeconfig!r}) as c:
    print(c.flow({flow.name!r}).result())
"""
    assert "4122" in subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_switch_chooses_one_branch_by_exit_code_and_patch_changes_its_job(local: pc.Client) -> None:
    @pc.task
    def leave(code: int) -> None:
        sys.exit(code)

    @pc.task
    def said(text: str) -> str:
        return text

    @pc.flow
    def choosing(code: int):
        with leave(code).switch() as case:
            with case(exit_code=3):
                said.using(patch={"ttlSecondsAfterFinished": 86400})("three")
            with case(phase="Failed"):
                said("failed")
            with pc.otherwise():
                said("well")

    for code, chosen in ((3, "said"), (4, "said-2"), (0, "said-3")):
        flow = choosing.run(code).wait(200)
        entries = flow.status.entries
        assert {name for name in entries if name.startswith("said") and entries[name] == "Completed"} == {chosen}
        assert [entries[name] for name in ("said", "said-2", "said-3")].count("Skipped") == 2
        assert flow[chosen].object()["spec"].get("ttlSecondsAfterFinished") == (86400 if code == 3 else None)


def test_comparison_of_a_value_chooses_the_branch_when_the_flow_runs(local: pc.Client) -> None:
    @pc.task
    def grade(name: str) -> str:
        return name

    @pc.task
    def said(text: str) -> str:
        return text

    @pc.flow
    def choosing():
        with pc.when((grade("good") == "good") & (train([1]) > 0.5)):
            said("high")
        with pc.otherwise():
            said("low")
        with pc.when(grade("bad") != "bad"):
            said("never")

    entries = choosing.run().wait(200).status.entries
    assert [entries[name] for name in ("said", "said-2", "said-3")] == ["Completed", "Skipped", "Skipped"]


def test_wait_for_a_failed_flow_raises_and_names_the_failed_entry(local: pc.Client) -> None:
    @pc.task
    def broken() -> None:
        raise ValueError("broken")

    @pc.flow
    def failing():
        report.after(broken())()

    flow = failing.run()
    with pytest.raises(errors.JobFailed, match=r"ended as Failed; broken failed, `flow\['broken'\].logs\(\)`"):
        flow.wait(200)
    with pytest.raises(errors.TaskError, match="ValueError: broken"):
        flow["broken"].result()
    with pytest.raises(errors.Usage, match="returns nothing"):
        failing_free.run().result(200)
    flow.delete()


@pc.flow
def failing_free():
    report()


PROGRAM = """
import sys, time
import pyroclast.client as pc

@pc.task
def extract(day: str) -> list:
    return [int(part) for part in day.split("-")]

@pc.task
def clean(part: int) -> int:
    return part * 2

@pc.task(gang=2)
def train(parts: list) -> int:
    return sum(parts) + pc.rank()

@pc.task(retries=1)
def report() -> str:
    return "done"

@pc.flow(store=sys.argv[1], keep=True)
def nightly(day: str):
    raw = extract(day)
    parts = clean.each(raw.items(3), parallel=4)
    with pc.when(parts.succeeded):
        fit = train(parts)
    report.after(fit, any=True)()
    return fit

with pc.Client(namespace="default", image="local", kubeconfig=sys.argv[2]) as client:
    client.asynchronous.python = sys.executable
    text = nightly.to_yaml("2026-11-24")
    assert text == nightly.to_yaml("2026-11-24")
    print(text, "---", sep="\\n", flush=True)
    time.sleep(600)
"""


def written(folder: Path, local: LocalClient) -> str:
    """The manifests of the flow, from a program that is killed when it has written them."""
    (folder / "notebook.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "notebook.py"), f"file://{folder}/store", local.kubeconfig]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        lines = []
        for line in program.stdout:
            lines.append(line)
            if line == "---\n" and "kind: JobFlow\n" in lines:
                break
        else:
            raise AssertionError("the program ended: " + "".join(lines))
        program.kill()
    assert program.returncode < 0
    return "".join(lines)


def test_flow_manifests_are_reproducible_and_run_with_kubectl_after_their_program_was_killed(
    local: LocalClient, tmp_path: Path
) -> None:
    text = written(tmp_path, local)
    (tmp_path / "flow.yaml").write_text(text)
    environment = {**os.environ, "KUBECONFIG": local.kubeconfig}
    subprocess.run(
        ["kubectl", "apply", "--server-side", "-f", str(tmp_path / "flow.yaml")], env=environment, check=True, capture_output=True
    )
    name = text.rpartition("kind: JobFlow")[2].partition("name: ")[2].partition("\n")[0]
    flow = local.flow(name)
    assert flow.result(200) == 4122
    assert flow["train"].results() == [4122, 4123]
    assert flow["report"].result() == "done"


def test_flow_status_shows_retries_loops_and_skipped_entries(local: LocalClient, tmp_path: Path) -> None:
    @pc.task
    def never() -> None:
        import time

        while not (tmp_path / "over").exists():
            time.sleep(0.1)

    @pc.flow
    def shown():
        again = flaky.using(retries=2, backoff="1s")(str(tmp_path / "marker"))
        parts = clean.each([1, 2], parallel=2)
        with pc.when(parts.succeeded):
            report("well")
        with pc.otherwise():
            report("bad")
        report.after(again, never(), any=True)("first")

    flow = shown.run()
    wait_until(lambda: flow.status.entries.get("report-3") == "Completed", "the entry that needs one of two", seconds=200)
    assert flow.status.entries["never"] == "Running"
    (tmp_path / "over").touch()
    status = flow.wait(200).object()["status"]
    suffix = flow.name.rpartition("-")[2]
    rows = {row["name"].removeprefix(f"{flow.name}-").replace(f"-{suffix}", ""): row for row in status["jobStatusList"]}
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(
        ("flaky", "clean-0", "clean-1", "report", "never", "report-3"), "Completed"
    )
    assert rows["flaky"]["retries"] == 1
    assert flow.status.entries["report-2"] == "Skipped"
    assert status["state"]["phase"] == "Succeed"


def test_retry_of_a_failed_flow_reruns_only_incomplete_entries(local: pc.Client, tmp_path: Path) -> None:
    marker = tmp_path / "allowed"

    @pc.task
    def counted(name: str) -> str:
        with open(tmp_path / name, "a") as file:
            file.write("x")
        return name

    @pc.task
    def picky(values: list[str], name: str) -> list[str]:
        if not marker.exists():
            raise RuntimeError("not allowed yet")
        return [*values, name]

    @pc.flow
    def steps():
        first = counted.each(["a", "b"])
        with pc.when(first):
            second = picky(first, "c")
        return picky(second, "d")

    flow = steps.run().wait(200, check=False)
    assert flow.phase == "Failed"
    marker.touch()
    again = flow.retry()
    assert again.result(200) == ["a", "b", "c", "d"]
    assert (tmp_path / "a").read_text() == "x"  # what had completed did not run again
    assert set(again.status.entries) == {"picky", "picky-2"}
    with pytest.raises(errors.Usage, match="nothing is left to do"):
        again.retry()
    flow.delete()


def test_cancelled_flow_ends_as_failed(local: pc.Client) -> None:
    @pc.task
    def long() -> None:
        import time

        time.sleep(600)

    @pc.flow
    def endless():
        report.after(long())()

    flow = endless.run()
    wait_until(lambda: flow.status.entries.get("long") == "Running", "the first Job to run", seconds=100)
    flow.cancel()
    assert flow.wait(200, check=False).phase == "Failed"
    assert "long" in flow._repr_html_()
