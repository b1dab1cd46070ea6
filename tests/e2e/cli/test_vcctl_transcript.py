"""A user's half hour with `vcctl` alone: submit, watch, why, logs, cancel, submit again, a flow as a tree, shares of queues.

Each step is a command as it is typed, its exit status, and what its output must show. The whole transcript is printed when a step
fails.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.e2e.support.cluster import Cluster

pytestmark = pytest.mark.timeout(600)  # some sixty commands, and what they wait for
PROGRAMS = Path(sys.executable).parent
PATIENCE = 60.0
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, labels: {team: vision}}
spec:
  queue: QUEUE
  minAvailable: PODS
  runningEstimate: 10m
  tasks:
  - name: worker
    replicas: PODS
    template:
      spec:
        restartPolicy: Never
        containers: [{name: main, image: busybox, command: [sh, -c, "SCRIPT"], resources: {requests: {cpu: "1"}}}]
"""
TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: step, namespace: NAMESPACE}
spec:
  queue: QUEUE
  minAvailable: 1
  tasks:
  - name: main
    replicas: 1
    template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox, command: [echo, done]}]}}
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: etl, namespace: NAMESPACE}
spec:
  jobRetainPolicy: retain
  flows: [{name: step}]
"""


@dataclass
class Session:
    """Types commands, and keeps what they said."""

    environment: dict[str, str]
    folder: Path
    lines: list[str] = field(default_factory=list)

    def types(self, command: str, *shows: str, status: int = 0, within: float = PATIENCE) -> str:
        """Type a command until it shows what it must and ends as it must."""
        deadline = time.monotonic() + within
        while True:
            done = self._run(command)
            missing = [each for each in shows if not re.search(each, done.stdout + done.stderr, re.MULTILINE)]
            if done.returncode == status and not missing:
                self.lines.append(f"$ {command}\n{done.stdout}{done.stderr}")
                return done.stdout
            if time.monotonic() > deadline:
                said = f"$ {command}\n{done.stdout}{done.stderr}[exit status {done.returncode}]"
                transcript = "\n".join([*self.lines, said])
                pytest.fail(f"wanted exit status {status} and {missing or shows}\n{transcript}")
            time.sleep(0.5)

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [str(PROGRAMS / program), *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr
        assert "a mistake of ours" not in done.stderr
        return done


@pytest.fixture
def session(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Session]:
    """A user whose kubeconfig names the namespace, with manifests in the current folder."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in document["contexts"]:
        context["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
    queue = f"{namespace}-q"
    for name, pods, script in (("train", 2, "echo epoch 1; sleep 600"), ("second", 1, "echo second"), ("huge", 9, "true")):
        text = JOB.replace("NAME", name).replace("PODS", str(pods)).replace("SCRIPT", script).replace("QUEUE", queue)
        (tmp_path / f"{name}.yaml").write_text(text)
    for name, text in (("template", TEMPLATE), ("flow", FLOW)):
        (tmp_path / f"{name}.yaml").write_text(text.replace("NAMESPACE", namespace).replace("QUEUE", queue))
    (tmp_path / "typo.yaml").write_text(TEMPLATE.replace("replicas", "replikas").replace("NAMESPACE", namespace))
    yield Session({**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "NO_COLOR": "1"}, tmp_path)
    cluster.kubectl("delete", "queue", queue, "--ignore-not-found", "--wait=false")


def test_vcctl_commands_of_a_user_session_print_expected_output_and_exit_status(
    session: Session, cluster: Cluster, namespace: str
) -> None:
    queue, types = f"{namespace}-q", session.types

    # a queue of one's own, with room for two pods
    types(f"vcctl queue create -n {queue} -w 2")
    cluster.kubectl("patch", "queue", queue, "--type=merge", "-p", '{"spec": {"capability": {"cpu": "2"}}}')
    types("vcctl queues", rf"^{queue} +Open +cpu +- +- +0 +- +2 +0 +0 +-$")
    types("vcctl nodes", r"^GROUP +STATE +NODES", r"Ready +\d")
    types("vcctl nodes --by kubernetes.io/os", "^linux +Ready")

    # before anything is submitted
    types("vcctl lint -f typo.yaml", r"error: .*replikas", status=1)
    types("vcctl lint -f train.yaml", r"1 object checked, 0 errors")
    types("vcctl fits -f train.yaml", rf"^{namespace}/train .*start")
    types("vcctl fits -f huge.yaml", "AboveQueueLimit, never", status=3)
    types("vcctl waiting", "^No Job waits$")

    # submit, watch
    types(f"vcctl job run -f train.yaml -N train -n {namespace}", "run job train successfully")
    types("vcctl wait train --for Running --timeout 60s", f"^Job {namespace}/train is Running$")
    types("vcctl running", rf"^{namespace} +train +{queue} +2 +2 +\d +2 cpu +\S+ +~\S+.* ok$")
    types("vcctl timeline train", "^train-worker-0 ", "^train-worker-1 ")
    types("vcctl top jobs", r"^\S+ +train +- +- +- +- +- +-$", "metrics-server")
    types("vcctl logs train", r"^\[worker-0\] epoch 1$", r"^\[worker-1\] epoch 1$")
    types("vcctl logs train --task worker --tail 1 --since 1h", "epoch 1")

    # why does the next one wait
    types(f"vcctl job run -f second.yaml -N second -n {namespace}", "run job second successfully")
    types("vcctl waiting", rf"second +{queue} .* QueueFull ")
    shows = ["QueueFull, not now", "^why ", "^before +1 of 1 ", r"^holds +\S+/train 2 cpu", "^change .*queue default: now"]
    told = types("vcctl explain second", *shows, "^help ", "^as of .*from the scheduler$")
    assert "docs/codes.md#queuefull" in told
    types(f"vcctl order -q {queue}", rf"^1 +{namespace} +second ")
    types(f"vcctl explain queue/{queue}", "1 wait, 1 run", "1 QueueFull")
    types("vcctl waiting -o jsonpath={.items[*].code}", "^QueueFull$")
    types("vcctl waiting -o csv --no-headers", "second")
    types("vcctl running -l team=none", "^No Job runs$")

    # suspend, resume, cancel, submit again
    types(f"vsuspend -n train -N {namespace}")
    types("vcctl waiting", "train .* Suspended ")
    types("vcctl wait second", f"^Job {namespace}/second is Completed$")
    types("vcctl wait second --for Failed", "is Completed and will not be Failed", status=1)
    types(f"vresume -n train -N {namespace}")
    types("vcctl wait train --for Running --timeout 60s", "is Running")
    types(f"vcancel -n train -N {namespace}", "cancel job train successfully")
    types("vcctl explain train", "it does not exist any more")
    types(f"vcctl job run -f train.yaml -N train -n {namespace}", "run job train successfully")
    types("vcctl wait train --for Running --timeout 60s", "is Running")
    types(f"vjobs -N {namespace}", "^train +", "^second +")
    types(f"vcancel -n train -N {namespace}", "cancel job train successfully")

    # a flow
    types("vcctl jobtemplate create -f template.yaml", "Created JobTemplate")
    types("vcctl jobflow create -f flow.yaml", "Created JobFlow")
    types("vcctl tree flow/etl", r"✔ \S+/etl Succeed", r"✔ step +Completed")
    types("vcctl logs etl-step", r"^\[main-0\] done$")

    # what was
    types("vcctl history", "train .* Removed ", "second .* Completed ", "etl-step .* Completed ")
    types("vcctl history train --all", "^Job .*/train, uid ", "^Waited:")
    types("vcctl efficiency second", "^Completed, exit code 0")
    types(f"vcctl report usage --by queue,resource -q {queue}", rf"^{queue} +cpu +")
    types("vcctl report cluster", r"^cpu +")
    types("vcctl report waits", rf"^{queue} ")

    # mistakes
    types("vcctl waiting --sort-by size", "there is no column", status=1)
    types("vcctl history --since yesterday-ish", 'since: "yesterday-ish" is neither a time', status=1)
    types("vcctl wait second --timeout soon", "--timeout: ", status=1)
    types("vcctl watch", 'unknown command "watch"', status=1)
    types("vcctl waiting --context nobody", "nobody", status=1)
