"""Two replicas of each service that leads, on networks so slow that a Lease is kept only just, or is lost: never two writers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.faults.test_faults import phases, pods_created_twice, submit
from tests.e2e.support.cluster import Cluster, wait_until
from tests.e2e.support.slow_network import SOURCES, SlowNetwork, port_of, slow_network

JOBS = 12
SERVICES = {
    "job-controller": "pyroclast_job_controller",
    "jobflow-controller": "pyroclast_jobflow_controller",
    "scheduler": "pyroclast_scheduler",
}
SECONDS = {"lease-duration": 9, "renew-deadline": 5, "retry-period": 1}
KEPT = 0.8
"""Seconds of delay at which renewals arrive in time if nothing else holds them up: one may take a third of the deadline."""
LOST = 2.5
"""Seconds at which none is answered in time; what was sent in time is there before another may lead."""
QPS = 5
"""Requests per second of a replica: others wait longer for their turn than a Lease lasts."""
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
WITHOUT_LEASE = {"leases", "events"}
"""What is written whoever leads: the Lease itself, and what is told of it."""


def lease_of(service: str) -> str:
    return f"slow-{service}"


@contextlib.contextmanager
def replicas(cluster: Cluster, folder: Path, network: SlowNetwork) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """One of each service behind `network`, by name."""
    config: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    for each in config["clusters"]:
        each["cluster"]["server"] = f"https://127.0.0.1:{network.port}"
    kubeconfig = folder / f"{network.source}.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    flags = [f"--leader-elect-{name}={seconds}s" for name, seconds in SECONDS.items()]
    flags += [f"--kubeconfig={kubeconfig}", f"--kube-api-qps={QPS}", f"--kube-api-burst={QPS}"]
    flags += ["--leader-elect-resource-namespace=pyroclast-system"]
    own = {"scheduler": [f"--scheduler-conf={cluster.data / 'scheduler.conf'}"]}
    with contextlib.ExitStack() as stack:
        processes = {}
        for service, module in SERVICES.items():
            log = stack.enter_context((folder / f"{service}-{network.source}.log").open("ab"))
            command = [sys.executable, "-m", module, *flags, f"--leader-elect-resource-name={lease_of(service)}"]
            process = stack.enter_context(subprocess.Popen([*command, *own.get(service, [])], stdout=log, stderr=log))
            stack.callback(process.kill)
            processes[service] = process
        yield processes


def holder(cluster: Cluster, service: str) -> tuple[str, int]:
    """Who holds the Lease of a service, and how often it went from one to another."""
    for item in cluster.get("leases", "-n", "pyroclast-system")["items"]:
        if item["metadata"]["name"] == lease_of(service):
            return item["spec"].get("holderIdentity") or "", item["spec"].get("leaseTransitions") or 0
    return "", 0


def leads(cluster: Cluster, source: str) -> bool:
    """Whether the replica at `source` was the last to write each Lease."""
    events = list(cluster.audit.events())
    return all(_last(_lease_writes(events, service)) == source for service in SERVICES)


def foreign_writes(events: Iterable[Mapping[str, Any]], service: str) -> list[str]:
    """What replicas of a service wrote while the other was the last to have written its Lease."""
    found, leader = [], ""
    for event in sorted(events, key=_arrived):
        if not _is_of(event, service):
            continue
        source, reference = event["sourceIPs"][0], event["objectRef"]
        if reference["resource"] == "leases":
            leader = source if event["responseStatus"]["code"] < 300 else leader
        elif reference["resource"] not in WITHOUT_LEASE and source != leader:
            found.append(
                f"{_arrived(event)} {source} {event['verb']} {reference['resource']} {reference.get('name')}: {leader} leads"
            )
    return found


def _is_of(event: Mapping[str, Any], service: str) -> bool:
    is_ours = event["userAgent"].startswith(f"pyroclast-{service}") and event["sourceIPs"][0] in SOURCES
    return is_ours and event["verb"] in WRITES and "objectRef" in event


def _lease_writes(events: Iterable[Mapping[str, Any]], service: str) -> list[str]:
    ours = (event for event in sorted(events, key=_arrived) if _is_of(event, service))
    return [
        event["sourceIPs"][0]
        for event in ours
        if event["objectRef"]["resource"] == "leases" and event["responseStatus"]["code"] < 300
    ]


def _last(sources: list[str]) -> str:
    return sources[-1] if sources else ""


def _arrived(event: Mapping[str, Any]) -> str:
    return str(event["requestReceivedTimestamp"])


def _event(second: int, source: str, verb: str, resource: str, code: int = 200) -> dict[str, Any]:
    return {
        "userAgent": "pyroclast-scheduler",
        "sourceIPs": [source],
        "verb": verb,
        "objectRef": {"resource": resource},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02d}.000000Z",
    }


def test_audit_check_detects_writes_without_the_lease() -> None:
    one, other = SOURCES
    events = [
        _event(1, one, "create", "leases", 201),
        _event(2, one, "patch", "podgroups"),
        _event(3, other, "update", "leases", 409),
    ]
    events += [_event(4, one, "patch", "podgroups"), _event(5, other, "update", "leases"), _event(6, other, "create", "pods")]
    assert foreign_writes(events, "scheduler") == []
    late = _event(7, one, "patch", "podgroups")
    assert len(foreign_writes([late, *events], "scheduler")) == 1
    assert foreign_writes([_event(7, one, "create", "events"), *events], "scheduler") == []


@pytest.mark.timeout(400)
def test_replica_on_a_slow_network_never_writes_after_losing_its_lease(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    target = port_of(cluster.kubeconfig)
    with cluster.standing_aside(*SERVICES), contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(slow_network(target, source)) for source in SOURCES)
        first = stack.enter_context(replicas(cluster, tmp_path, one))
        wait_until(lambda: leads(cluster, one.source), "the first replicas to lead", seconds=90)
        second = stack.enter_context(replicas(cluster, tmp_path, other))

        before = {service: holder(cluster, service) for service in SERVICES}
        one.delay = other.delay = KEPT
        submit(cluster, namespace, JOBS)
        wait_until(lambda: phases(cluster, namespace) == {"Completed": JOBS}, "the Jobs to complete slowly", seconds=150)
        assert {service: holder(cluster, service) for service in SERVICES} == before, "no Lease is lost for want of a turn"
        assert not ended(first)

        one.delay, other.delay = LOST, 0.0
        submit(cluster, namespace, JOBS, prefix="late")
        wait_until(lambda: leads(cluster, other.source), "the second replicas to lead", seconds=60)
        wait_until(lambda: ended(first) == set(SERVICES), "those that lost their Leases to end")
        assert not ended(second)
        wait_until(lambda: phases(cluster, namespace) == {"Completed": 2 * JOBS}, "all Jobs to complete", seconds=150)
        events = list(cluster.audit.events())
    assert {service: foreign_writes(events, service) for service in SERVICES} == {service: [] for service in SERVICES}
    assert pods_created_twice(cluster, namespace) == []


def ended(processes: Mapping[str, subprocess.Popen[bytes]]) -> set[str]:
    return {service for service, process in processes.items() if process.poll() is not None}
