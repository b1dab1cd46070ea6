"""Whether a Job that does not exist would start: the answer is the scheduler's alone."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast_cli import programs
from tests.unit.cli.golden.server import serving

MANIFEST = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: ask}
spec:
  queue: research
  tasks:
  - name: main
    replicas: 2
    template: {spec: {containers: [{name: c, image: busybox, resources: {requests: {cpu: CPU}}}]}}
"""


def answer(code: str | None, sentence: str, *, never: bool = False) -> dict[str, Any]:
    """What the scheduler says of a Job that it tried."""
    waits = {"waitedSeconds": 0, "start": None, "startReason": "it does not wait yet", "help": "wait", "doc": "docs/codes.md"}
    named = {"metadata": {"namespace": "default", "name": "ask"}, "queue": "research"}
    said = {"code": code, "never": never, "sentence": sentence, "asOf": "2026-03-01T12:00:00Z", "complete": True}
    return {"kind": "Explanation", **named, **said, **(waits if code else {})}


STARTS = answer(None, "it would start at once")
WAITS = answer("QueueFull", "not now: it asks for 6 cpu")
NEVER = answer("AboveQueueLimit", "never: it asks for 60 cpu", never=True)
REFUSED = {"kind": "Status", "message": "this Job cannot be tried: it has more than 20000 pods", "code": 400}
JOB = MANIFEST.replace("CPU", "1")
TYPO = JOB.replace("  queue:", "  schedulerName: volcan\n  queue:")


@pytest.mark.parametrize(
    ("text", "flags", "fits", "status", "line"),
    [
        (JOB, [], STARTS, 0, "default/ask in queue research: it would start at once"),
        (JOB, [], WAITS, 0, "default/ask would wait in queue research: QueueFull, not now"),
        (JOB, [], NEVER, 3, "default/ask would wait in queue research: AboveQueueLimit, never"),
        (JOB, [], REFUSED, 1, "this Job cannot be tried: it has more than 20000 pods"),
        (JOB, [], None, 5, "only the scheduler can try a Job: "),
        (TYPO, [], None, 0, "default/ask in queue research: NoScheduler"),
        (JOB, ["-q", "nightly"], None, 1, "it would be refused: can only submit job to queue with state"),
        (JOB, ["-q", "nothing"], None, 1, "it would be refused: unable to find job queue"),
        (JOB.replace("replicas", "replikas"), [], None, 1, "it would be refused: "),
        ("kind: Pod", [], None, 1, "there must be one Job of batch.volcano.sh/v1alpha1, and there are 0"),
        ("{", [], None, 1, "is not YAML"),
    ],
)
def test_vcctl_fits_prints_whether_a_manifest_would_start_wait_or_be_refused(text, flags, fits, status, line, tmp_path, capsys):
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with serving(fits=fits) as url:
        assert programs.vcctl(["fits", "-f", str(file), *flags, "--master", url]) == status
    printed = capsys.readouterr()
    is_failure = status in {1, 5}
    assert line in (printed.err if is_failure else printed.out)
    assert len(printed.err.splitlines()) == is_failure
