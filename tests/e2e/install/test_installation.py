"""The chart on a whole control plane: kube-scheduler places our pods, and nodes run them from their own specs as processes.

Installed with `helm install --wait`, upgraded, tested by `helm test` and taken away, with each set of values; with one of them
upgraded from the release before this one and rolled back to it, under Jobs of every phase and while kubectl submits more. All
sets run in the soak, few otherwise.

What cannot be had here: cert-manager and the Prometheus operator. Definitions of their kinds are there, with the fields that we
use, and the test writes the Secret that cert-manager would. API servers here have no network of pods: they call webhooks by
`webhook.url`, behind which the pods of the Service are.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.control_plane import build
from tests.e2e.support.audit import Audit
from tests.e2e.support.cluster import wait_until
from tests.e2e.support.installed import HELM_SECONDS, Release, Whole, whole_plane
from tests.e2e.support.load import jobs_meanwhile
from tests.e2e.support.previous import ROOT, unpacked
from tests.unit.chart import authorities, render
from tests.unit.chart.conftest import helm  # noqa: F401 - a fixture
from tests.unit.chart.render import NAMESPACE, RELEASE
from tests.unit.chart.value_sets import SETS

USUAL = {"high availability"}
"""Sets that are installed outside the soak too, beside the defaults in the long test."""
CHANGES = {
    "no metrics": ["custom.leader_elect_enable=false"],
    "the defaults of Volcano": ["custom.leader_elect_enable=true"],
    "several schedulers": ["custom.scheduler_members=1"],
    "high availability": ["custom.controller_shards=1"],
    "defaults": ["custom.admission_enable=false", "custom.vap_enable=true", "custom.jobflow_enable=false"],
    "policies instead of webhooks": ["custom.enabled_admissions=/jobs/validate"],
}
"""What upgrades change besides labels, which makes new pods of all programs."""
UNGUARDED = {"a scheduler alone"}
"""Sets with nobody who looks at Jobs."""
WITHOUT_A_GANG = {"a scheduler alone", "flows alone"}
"""Sets that leave out what `helm test` runs a gang with."""
LEADERSHIP_SECONDS = 2.0
"""From the last write of a leader that ends to the first of the next one."""
PROGRAMS = ["admission", "controllers", "jobflow", "scheduler"]
WRITTEN_BY_THE_NEWER = ("pyroclast-run-lengths",)
"""ConfigMaps that only this release writes: after a rollback, the chart of the one before does not take them away."""
LONG = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, namespace: default}
spec:
  minAvailable: 2
  tasks:
  - name: a
    replicas: 2
    template: {spec: {restartPolicy: Never, containers: [{name: a, image: a, command: ["COMMAND"], args: [ARGUMENT]}]}}
"""
COMMAND = """
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {generateName: order-, namespace: default}
action: ACTION
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: NAME, uid: UID, controller: true}
"""
SETTLED = {"running": "Running", "completed": "Completed", "failed": "Failed", "aborted": "Aborted", "terminated": "Terminated"}
"""Jobs by name, and the phase that they are in and stay in."""
ORDERS = {"aborted": "AbortJob", "terminated": "TerminateJob"}
MOVING = {
    "aborting": ("AbortJob", "Aborting", "Aborted"),
    "completing": ("CompleteJob", "Completing", "Completed"),
    "terminating": ("TerminateJob", "Terminating", "Terminated"),
    "restarting": ("RestartJob", "Restarting", "Running"),
}
"""Jobs on their way, held there by pods that do not end: by which command, in which phase, in which once these are gone."""
PHASES = {**SETTLED, **{name: phase for name, (_, phase, _) in MOVING.items()}}
STUBBORN = "trap true TERM; while true; do sleep 1; done"
GRACE = "terminationGracePeriodSeconds: 900, restartPolicy: Never"


def job(name: str, command: str, argument: str) -> str:
    return LONG.replace("NAME", name).replace("COMMAND", command).replace("ARGUMENT", f'"{argument}"')


def shell(name: str, script: str) -> str:
    return job(name, "sh", "").replace('args: [""]', f'args: ["-c", "{script}"]')


@pytest.fixture(scope="module")
def whole(control_plane: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """One for all tests here: each takes away what it has installed."""
    if control_plane != "real" or build.missing(["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]):
        pytest.skip("Deployments need a whole control plane: --control-plane=real")
    if any(Path(place).resolve().is_relative_to("/tmp") for place in (sys.prefix, __file__)):
        pytest.skip("this checkout lies in /tmp, over which the pods mount a volume")
    with whole_plane(tmp_path_factory.mktemp("whole")) as whole:
        yield whole


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [each if each in USUAL else pytest.param(each, marks=pytest.mark.soak) for each in SETS])
def test_chart_installs_upgrades_tests_and_uninstalls_with_each_set_of_values(
    whole: Whole,
    helm: Path,  # noqa: F811
    tmp_path: Path,
    name: str,
) -> None:
    """Installed, upgraded, tested and uninstalled by helm; what is there then was there before, or is of our kinds."""
    before = whole.everything()
    it = Release(whole, helm, tmp_path, SETS[name])
    with _prepared(it, name), it.gone_at_last():
        prepared = whole.everything()
        it.release("install")
        _holds_to_its_values(it, name)
        changes = ["custom.common_labels.round=second", *CHANGES.get(name, ())]
        it.release("upgrade", *(option for change in changes for option in ("--set", change)))
        _holds_to_its_values(it, name)
        suites = it.helm("test", RELEASE, "--timeout", "120s", "--logs")
        has_gang = name not in WITHOUT_A_GANG
        assert ("Phase:          Succeeded" in suites, suites.count("POD LOGS"), " Completed " in suites) == (
            has_gang,
            has_gang,
            has_gang,
        )
        it.helm("uninstall", RELEASE, "--wait", "--timeout", "120s")
        whole.await_as_before(prepared)
        assert prepared <= whole.everything(), "what others have made stays"
    whole.await_as_before(before)


def _holds_to_its_values(it: Release, name: str) -> None:
    """Every pod that is there is ready, and what makes no sense is refused by whoever these values appoint for it."""
    for pod in it.get("pods", "-n", NAMESPACE)["items"]:
        if "deletionTimestamp" not in pod["metadata"]:
            assert {each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"} == {"True"}
    for document in yaml.load_all(it.helm("get", "manifest", RELEASE), yaml.CSafeLoader):
        if document and document["apiVersion"].startswith("monitoring.coreos.com/"):
            found = it.get(document["kind"], document["metadata"]["name"], "-n", NAMESPACE)
            assert found["spec"] == document["spec"], "no field is unknown to the kind"
    if name not in UNGUARDED:
        senseless = job("senseless", "true", "").replace("minAvailable: 2", "minAvailable: 3")
        said = it.refused("kubectl", "create", "--dry-run=server", "-f", "-", stdin=senseless)
        assert "job 'minAvailable' should not be greater than total replicas in tasks" in said


@contextlib.contextmanager
def _prepared(it: Release, name: str) -> Iterator[None]:
    """What others have made before these values make sense, until the end."""
    if name != "cert-manager":
        yield
        return
    manifest = render.ROOT / "certs" / "cert-manager.yaml"
    requests = list(yaml.safe_load_all(manifest.read_text()))
    (asked,) = (each["spec"] for each in requests if each["metadata"]["name"] == "pyroclast-admission")
    asked["ipAddresses"] = ["127.0.0.1"]  # where `webhook.url` has the API server call
    files = authorities.certificate_of(requests, "pyroclast-admission", now=authorities.now())
    metadata = {"name": asked["secretName"], "namespace": NAMESPACE}
    data = {key: base64.b64encode(content).decode() for key, content in files.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
    it.run("kubectl", "create", "--validate=strict", "-f", str(manifest))
    it.run("kubectl", "create", "-f", "-", stdin=json.dumps(secret))
    yield
    it.run("kubectl", "delete", "-f", str(manifest))
    it.run("kubectl", "delete", "secret", asked["secretName"], "-n", NAMESPACE)


@pytest.mark.timeout(600)
def test_jobs_keep_their_phase_when_the_chart_is_upgraded_rolled_back_and_uninstalled(
    whole: Whole,
    helm: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    before = whole.everything()
    it = Release(whole, helm, tmp_path, SETS["defaults"])
    with it.gone_at_last(), _old_tree() as older:
        names = _from_installation_to_the_end(it, older)
        phases = it.phases(names)
    _forget_what_the_newer_wrote(it, older)
    whole.await_as_before(before, besides="default")
    assert it.phases(names) == phases, "Jobs outlive the release"


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_no_job_is_lost_during_chart_upgrades_rollbacks_and_restarts(
    whole: Whole,
    helm: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Upgrades, rollbacks and restarts of each program, one after the other, while kubectl submits 200 Jobs a minute."""
    before = whole.everything()
    it = Release(whole, helm, tmp_path, SETS["high availability"])
    with it.gone_at_last(), _old_tree() as older:
        it.tree = older
        it.release("install")
        with _jobs_meanwhile(it, seconds=900.0):
            for _ in range(2):
                it.tree = ROOT
                it.release("upgrade")
                for program in PROGRAMS:
                    it.run("kubectl", "rollout", "restart", f"deployment/pyroclast-{program}", "-n", NAMESPACE)
                    it.run("kubectl", "rollout", "status", f"deployment/pyroclast-{program}", "-n", NAMESPACE, "--timeout=120s")
                it.helm("rollback", RELEASE, "--wait", "--timeout", HELM_SECONDS)
        pauses = Audit(it.server.audit_log, []).handovers(NAMESPACE)
        del pauses["pyroclast-recorder"]  # it keeps a file: the old one ends before the new one starts
    _forget_what_the_newer_wrote(it, older)
    whole.await_as_before(before)
    assert len(pauses) >= 3, "of controllers, flows and scheduler"
    assert all(each and max(each) <= LEADERSHIP_SECONDS for each in pauses.values()), pauses


@contextlib.contextmanager
def _old_tree() -> Iterator[Path]:
    """The tree of the release before this one, where this checkout has it, else this one; not in /tmp, over which pods mount."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield unpacked(Path(folder)) or ROOT


def _forget_what_the_newer_wrote(it: Release, older: Path) -> None:
    if older != ROOT:
        it.run("kubectl", "delete", "configmap", *WRITTEN_BY_THE_NEWER, "-n", NAMESPACE, "--ignore-not-found")


def _generation(it: Release, program: str) -> int:
    """How often the Deployment of a program has changed."""
    return int(it.get("deployment", f"pyroclast-{program}", "-n", NAMESPACE)["metadata"]["generation"])


@contextlib.contextmanager
def _jobs_meanwhile(it: Release, *, seconds: float) -> Iterator[None]:
    """Jobs are submitted for so long at most; none is refused, lost or run twice."""
    namespace = f"load-{secrets.token_hex(3)}"
    it.run("kubectl", "create", "namespace", namespace)
    generation = _generation(it, "admission")
    with jobs_meanwhile(
        it.server.kubeconfig, namespace, lambda: _generation(it, "admission") > generation, seconds=seconds
    ) as load:
        yield
    load.check(Audit(it.server.audit_log, []))
    it.run("kubectl", "delete", "namespace", namespace, "--wait=false")


def _jobs_of_each_phase(it: Release) -> None:
    def create(manifest: str) -> None:
        it.run("kubectl", "create", "-f", "-", stdin=manifest)

    for name in ("running", *ORDERS):
        create(job(name, "sleep", "600"))
    create(job("completed", "true", ""))
    create(job("failed", "false", "").replace("minAvailable", "maxRetry: 1\n  minAvailable"))
    create(job("pending", "sleep", "600").replace("image: a,", "image: a, resources: {requests: {cpu: 1000}},"))
    for name in MOVING:
        create(shell(name, STUBBORN).replace("restartPolicy: Never", GRACE))
    for name in ("running", *ORDERS, *MOVING):
        it.await_phase(name, "Running")
    for name, action in {**ORDERS, **{name: action for name, (action, _, _) in MOVING.items()}}.items():
        uid = it.get("vcjob", name)["metadata"]["uid"]
        create(COMMAND.replace("ACTION", action).replace("NAME", name).replace("UID", uid))
    for name, phase in PHASES.items():
        it.await_phase(name, phase)


@contextlib.contextmanager
def _something_happens_meanwhile(it: Release, name: str) -> Iterator[None]:
    """A pod fails while the programs are replaced; what its Job's policy says happens, and an Event tells of it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        word = Path(folder) / "fail"
        waits = f"while [ ! -e {word} ]; do sleep 0.1; done; exit 3"
        manifest = shell(name, waits)
        policies = "policies: [{event: PodFailed, action: AbortJob}]"
        it.run("kubectl", "create", "-f", "-", stdin=manifest.replace("minAvailable", f"{policies}\n  minAvailable"))
        it.await_phase(name, "Running")
        generation = _generation(it, "controllers")

        def fail_once_it_has_begun() -> None:
            wait_until(lambda: _generation(it, "controllers") > generation, "the Deployment to change")
            word.touch()

        with ThreadPoolExecutor(1) as pool:
            failing = pool.submit(fail_once_it_has_begun)
            yield
            failing.result()
        it.await_phase(name, "Aborted")
        found = it.get("events", "-n", "default", "--field-selector", f"involvedObject.name={name}")["items"]
        assert [each for each in found if "exit code 3" in each["message"] or "AbortJob" in each["message"]]
        it.run("kubectl", "delete", "vcjob", name)


def _from_installation_to_the_end(it: Release, older: Path) -> tuple[str, ...]:
    """The names of the Jobs that are left then, which stay in their phases. The release begins as that of the tree `older`."""
    it.tree = older
    it.release("install", "--create-namespace")
    for program in PROGRAMS:
        status = it.get("deployment", f"pyroclast-{program}", "-n", NAMESPACE)["status"]
        assert status["readyReplicas"] == (2 if program == "admission" else 1), program
    assert "Phase:          Succeeded" in it.helm("test", RELEASE)
    assert not it.get("pods", "-n", NAMESPACE, "-l", "!app")["items"], "the test leaves nothing"

    names = (*PHASES, "pending")
    _jobs_of_each_phase(it)
    phases, pods = it.phases(names), it.pods(names)
    assert phases == {**PHASES, "pending": "Pending"}

    it.tree = ROOT
    with _something_happens_meanwhile(it, "during-upgrade"):
        it.release("upgrade", "--set", "custom.log_level=debug")
    _definitions_came_first(it)
    assert older == ROOT or "pyroclast-board" in it.run("kubectl", "get", "deployments", "-n", NAMESPACE, "-o", "name")
    assert it.phases(names) == phases, "an upgrade changes no Job and restarts no pod"
    assert it.pods(names) == pods, "an upgrade changes no Job and restarts no pod"
    it.run("kubectl", "create", "-f", "-", stdin=job("after-upgrade", "true", ""))
    it.await_phase("after-upgrade", "Completed")

    with _something_happens_meanwhile(it, "during-rollback"):
        it.helm("rollback", RELEASE, "1", "--wait", "--timeout", HELM_SECONDS)
    assert it.phases(names) == phases, "nor does a rollback"
    assert it.pods(names) == pods, "nor does a rollback"
    assert older == ROOT or "pyroclast-board" not in it.run("kubectl", "get", "deployments", "-n", NAMESPACE, "-o", "name")
    it.run("kubectl", "create", "-f", "-", stdin=job("after-rollback", "true", ""))
    it.await_phase("after-rollback", "Completed")

    _definitions_came_first(it)
    for name, (_, _, phase) in MOVING.items():
        it.run("kubectl", "delete", "pods", "-l", f"volcano.sh/job-name={name}", "--force", "--grace-period=0")
        it.await_phase(name, phase)
    it.run("kubectl", "delete", "vcjob", "restarting")
    it.run("kubectl", "delete", "pods", "-l", "volcano.sh/job-name=restarting", "--force", "--grace-period=0")
    return (*SETTLED, "pending")


def _definitions_came_first(it: Release) -> None:
    """In the last upgrade or rollback, helm wrote all definitions before it wrote a Deployment."""
    order = [
        event["objectRef"]["resource"]
        for event in Audit(it.server.audit_log, []).events()
        if event["userAgent"].startswith("Helm") and event["verb"] in ("create", "update", "patch") and "objectRef" in event
    ]
    since = len(order) - order[::-1].index("secrets", order[::-1].index("deployments"))  # it keeps its releases in Secrets
    last = order[since:]
    assert last.index("deployments") > max(index for index, each in enumerate(last) if each == "customresourcedefinitions")
