"""Flows from the user's side: order, choices, loops, retries, patches, retention, what is refused, and deletion."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.cluster import Cluster, running, wait_until
from tests.e2e.support.shell import Shell

API = "flow.volcano.sh/v1alpha1"


def template(name: str, command: str = "sleep 1", *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    rows = list(tasks) or [task("t", command)]
    return {"apiVersion": API, "kind": "JobTemplate", "metadata": {"name": name}, "spec": {"tasks": rows, **spec}}


def task(name: str, command: str, replicas: int = 1, **container: Any) -> dict[str, Any]:
    body = {"name": "c", "image": "busybox", "command": ["sh", "-c", command], **container}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [body]}
    return {"name": name, "replicas": replicas, "template": {"spec": pod}}


def flow(*entries: dict[str, Any], name: str = "f", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "JobFlow", "metadata": {"name": name}, "spec": {"flows": list(entries), **spec}}


def entry(name: str, *targets: str, **more: Any) -> dict[str, Any]:
    depends = {**({"targets": list(targets)} if targets else {}), **more.pop("dependsOn", {})}
    return {"name": name, **({"dependsOn": depends} if depends else {}), **more}


class Flows:
    """What a user does in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def create(self, *objects: dict[str, Any]) -> None:
        manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.cluster.create(manifests, self.namespace)

    def refused(self, manifest: dict[str, Any], verb: str = "create") -> str:
        return self.cluster.refused(verb, "-n", self.namespace, "-f", "-", stdin=json.dumps(manifest))

    def status(self, name: str = "f") -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get("jobflow", name, "-n", self.namespace).get("status", {})
        return found

    def phases(self) -> dict[str, str]:
        """The phases of the conditions, by entry."""
        conditions = self.status().get("conditions", {})
        return {name.removeprefix("f-"): condition.get("phase", "") for name, condition in conditions.items()}

    def reaches(self, phase: str, name: str = "f", *, seconds: float = 90.0) -> dict[str, Any]:
        wait_until(
            lambda: self.status(name).get("state", {}).get("phase") == phase, f"flow {name} to be {phase}", seconds=seconds
        )
        return self.status(name)

    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.cluster.get("vcjob", "-n", self.namespace)["items"]]

    def started(self, job: str) -> str:
        """When the Job was made."""
        return str(self.cluster.get("vcjob", job, "-n", self.namespace)["metadata"]["creationTimestamp"])


@pytest.fixture
def flows(cluster: Cluster, namespace: str) -> Flows:
    return Flows(cluster, namespace)


@pytest.fixture(scope="module")
def processes(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane whose pods are processes of this machine, so that they really listen."""
    folder = tmp_path_factory.mktemp(f"{control_plane}-processes")
    with running(control_plane, folder, nodes=2, mode="process") as cluster:
        yield cluster


def test_jobflow_starts_jobs_in_dependency_order(flows: Flows) -> None:
    flows.create(*(template(name) for name in "abcd"))
    flows.create(flow(entry("d", "b", "c"), entry("b", "a"), entry("c", "a"), entry("a")))
    status = flows.reaches("Succeed")
    made = {name: flows.started(f"f-{name}") for name in "abcd"}
    assert made["a"] < made["b"] <= made["d"]
    assert made["a"] < made["c"] <= made["d"]
    assert status["completedJobs"] == ["f-d", "f-b", "f-c", "f-a"]
    assert status["startTime"] <= status["completionTime"]
    assert "Succeed" in flows.cluster.kubectl("get", "jf", "-n", flows.namespace)
    templates = flows.cluster.get("jt", "a", "-n", flows.namespace)
    assert templates["status"]["jobDependsOnList"] == ["f-a"]


def test_jobflow_if_switch_and_for_run_chosen_entries_and_skip_others(flows: Flows) -> None:
    names = ("bad", "yes", "no", "both", "by-code", "other", "say", "rounds", "late")
    flows.create(*(template(name) for name in names if name != "bad"), template("bad", "exit 3"))
    flows.create(
        flow(
            entry("bad"),
            entry("yes", **{"if": {"target": "bad", "phase": ["Failed"]}, "else": ["no"]}),
            entry("no"),
            entry("both", "yes", "no"),
            entry("choose", switch={"on": "bad", "cases": [{"exitCode": 3, "entries": ["by-code"]}], "default": ["other"]}),
            entry("by-code"),
            entry("other"),
            entry("say", "bad", "yes", **{"if": {"expression": "targets.bad.phase == 'Failed' && targets.yes.succeeded == 1"}}),
            entry("rounds", "yes", **{"for": {"items": ["red", "blue", 7], "parallel": 2}}),
            entry("late", "yes", **{"for": {"count": 5, "until": "last.index == 1"}}),
        )
    )
    flows.reaches("Succeed")
    phases = flows.phases()
    assert phases["bad"] == "Failed"
    assert [name for name, phase in phases.items() if phase == "Skipped"] == ["no", "other"]
    assert {name for name, phase in phases.items() if phase == "Completed"} >= {
        "yes",
        "both",
        "choose",
        "by-code",
        "say",
        "rounds",
    }
    assert {"f-rounds-0", "f-rounds-1", "f-rounds-2"} <= set(flows.jobs())
    job = flows.cluster.get("vcjob", "f-rounds-2", "-n", flows.namespace)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "VC_FLOW_ITEM", "value": "7"}]
    assert {"f-late-0", "f-late-1"} <= set(flows.jobs())
    assert "f-late-2" not in flows.jobs()


def test_failure_policy_cancel_terminates_running_jobs_of_a_failed_jobflow(flows: Flows) -> None:
    flows.create(template("a", "sleep 2; exit 1", maxRetry=1), template("b", "sleep 600"))
    flows.create(flow(entry("a"), entry("b"), failurePolicy="Cancel"))
    flows.reaches("Failed")
    wait_until(lambda: flows.phases() == {"a": "Failed", "b": "Terminated"}, "the other Job to be terminated", seconds=60)
    message = flows.status()["conditions"]["f-b"]["message"]
    assert "JobFlow f has failed, and its failurePolicy is Cancel" in message
    assert flows.cluster.get("commands", "-n", flows.namespace)["items"] == []


def test_retain_policy_delete_removes_jobs_of_succeeded_but_not_of_failed_jobflows(flows: Flows) -> None:
    flows.create(template("a"), template("b", "exit 1"))
    flows.create(flow(entry("a"), jobRetainPolicy="delete"), flow(entry("b"), name="g", jobRetainPolicy="delete"))
    flows.reaches("Succeed")
    flows.reaches("Failed", "g")
    wait_until(lambda: flows.jobs() == ["g-b"], "the Jobs of the flow that succeeded to go")
    assert flows.status()["completedJobs"] == ["f-a"]


def test_webhook_refuses_jobflow_cycles_changes_to_started_entries_and_deletion_while_running(flows: Flows) -> None:
    said = flows.refused(flow(entry("a", "b"), entry("b", "c"), entry("c", "a")))
    assert "jobflow Flow is not DAG" in said
    assert "a → b → c → a" in said
    assert "flows[0] and flows[1] are both named a, but differ" in flows.refused(flow(entry("a"), entry("a", retry={"limit": 1})))
    flows.create(template("a", "sleep 600"), template("b"))
    flows.create(flow(entry("a"), entry("b", "a")))
    wait_until(lambda: flows.phases().get("a") == "Running", "the first Job to run")
    changed = flow(entry("a", retry={"limit": 1}), entry("b", "a"))
    assert "may not change entries that have started: a (changed)" in flows.refused(changed, "apply")
    namespace = ("-n", flows.namespace)
    assert "it is Running, not complete" in flows.cluster.refused("delete", "jobflow", "f", *namespace)
    assert "JobFlows that are not complete use it: f" in flows.cluster.refused("delete", "jobtemplate", "b", *namespace)
    flows.cluster.kubectl("annotate", "jobflow", "f", "flow.volcano.sh/force-delete=true", *namespace)
    flows.cluster.kubectl("delete", "jobflow", "f", *namespace)
    assert flows.jobs() == []


def test_namespace_with_a_running_jobflow_can_be_deleted(cluster: Cluster) -> None:
    flows = Flows(cluster, "namespace-with-a-running-flow")
    cluster.make_namespace(flows.namespace)
    flows.create(template("a", "sleep 600"), flow(entry("a"), entry("b", "a")))
    wait_until(lambda: flows.phases().get("a") == "Running", "the first Job to run")
    flows.cluster.kubectl("delete", "namespace", flows.namespace, "--timeout=60s", timeout=90)


@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    ("kind", "probe"),
    [
        ("http", {"httpGetList": [{"taskName": "web", "path": "/ready", "port": 18231}]}),
        ("tcp", {"tcpSocketList": [{"taskName": "web", "port": 18232}]}),
        ("status", {"taskStatusList": [{"taskName": "web", "phase": "running"}]}),
    ],
)
def test_entry_starts_when_the_probe_of_its_running_target_succeeds(processes: Cluster, kind: str, probe: dict[str, Any]) -> None:
    namespace = f"probe-{kind}"
    processes.make_namespace(namespace)
    flows = Flows(processes, namespace)
    port = next((each["port"] for each in (probe.get("httpGetList") or probe.get("tcpSocketList") or ())), 18233)
    code = f"""
import http.server, os
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ready" else 404)
        self.end_headers()
http.server.HTTPServer(("0.0.0.0", {port}), Ready).serve_forever()
"""
    server = task("web", "")
    server["template"]["spec"]["containers"][0]["command"] = [sys.executable, "-c", code]
    flows.create(template("server", "", server), template("client", "true"))
    flows.create(flow(entry("server"), entry("client", "server", dependsOn={"targets": ["server"], "probe": probe})))
    wait_until(lambda: flows.phases().get("client") == "Completed", "the client to run while the server does", seconds=90)
    assert flows.phases()["server"] == "Running"


@pytest.mark.timeout(400)
def test_values_reach_a_loop_a_branch_and_a_resumed_entry_exactly_once_though_the_controllers_are_killed_at_every_step(
    processes: Cluster, tmp_path: Path
) -> None:
    namespace = "values"
    processes.kubectl("create", "namespace", namespace)
    flows, mended = Flows(processes, namespace), tmp_path / "mended"
    says = "printf '%s' '{}' > /dev/termination-log".format
    flows.create(
        template("split", says('["red", "blue"]')),
        template("each", """printf '{"item": "%s", "loss": 0.5}' "$VC_FLOW_ITEM" > /dev/termination-log"""),
        template("grade", """test "$ITEMS" = red-blue && printf '{"score": %s}' "$SCORE" > /dev/termination-log"""),
        template("good", f"""test -e {mended} && printf '%s' "$SCORE" > /dev/termination-log"""),
        template("bad"),
    )
    items = "${entries.each.outputs[0].item}-${entries.each.outputs[1].item}"
    score = {"name": "SCORE", "value": "${entries.grade.outputs.score}"}
    flows.create(
        flow(
            entry("split"),
            entry("each", **{"for": {"itemsFrom": "entries.split.outputs"}}),
            entry("grade", patch=env({"name": "ITEMS", "value": items}, {"name": "SCORE", "value": "${parameters.score}"})),
            entry(
                "choose",
                switch={"on": "grade", "cases": [{"expression": "entries.grade.outputs.score > 0.9", "entries": ["good"]}]}
                | {"default": ["bad"]},
            ),
            entry("good", "grade", patch=env(score)),
            entry("bad"),
            parameters={"score": 0.93},
        )
    )

    def killed_until(phase: str) -> dict[str, Any]:
        """Kill a controller after each step of the flow that is seen, until the flow is in the phase."""
        seen: set[str] = set()
        victims = itertools.cycle(("jobflow-controller", "job-controller"))

        def is_there() -> bool:
            status = flows.status()
            if (step := str(sorted(flows.phases().items()))) not in seen:
                seen.add(step)
                processes.kill(next(victims))
            return bool(status.get("state", {}).get("phase") == phase)

        wait_until(is_there, f"the flow to be {phase}", seconds=150)
        return flows.status()

    killed_until("Failed")
    mended.touch()
    shell = Shell(processes.kubeconfig, namespace)
    assert "f resumed" in shell.said("vcctl", "flow", "resume", "f", "-n", namespace)
    rows = {row["name"]: row for row in killed_until("Succeed")["jobStatusList"]}
    assert json.loads(rows["f-good"]["outputs"]) == 0.93
    assert json.loads(rows["f-each-1"]["outputs"]) == {"item": "blue", "loss": 0.5}
    assert flows.phases()["bad"] == "Skipped"
    made = processes.audit.created("jobs", namespace)
    assert made == {"f-split": 1, "f-each-0": 1, "f-each-1": 1, "f-grade": 1, "f-good": 2}
    assert '→ {"score":0.93}' in shell.said("vcctl", "tree", "f", "-n", namespace)
    shell.said("vcctl", "flow", "run", "f", "-n", namespace, "-p", "score=0.5", "--name", "low")
    conditions = flows.reaches("Succeed", "low")["conditions"]
    assert (conditions["low-good"]["phase"], conditions["low-bad"]["phase"]) == ("Skipped", "Completed")


def env(*variables: dict[str, str]) -> dict[str, Any]:
    return {"spec": {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c", "env": list(variables)}]}}}]}}
