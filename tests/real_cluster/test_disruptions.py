"""What happens to nodes and to the release while Jobs run: a stopped kubelet, little memory, restarts, upgrades, an uninstall."""

from __future__ import annotations

import time
from typing import Any

from tests.real_cluster import images
from tests.real_cluster.conftest import Cluster, Release
from tests.real_cluster.seen import gang, phase_of, pods_of, wait_for, wait_for_phase

_SYSTEM = "--namespace=pyroclast-system"
_READY = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
_PRESSURE = 'jsonpath={.status.conditions[?(@.type=="MemoryPressure")].status}'


def _on(job: dict[str, Any], node: str) -> dict[str, Any]:
    job["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return job


def test_a_job_goes_on_while_the_kubelet_of_its_node_is_stopped(installed: Cluster) -> None:
    node = installed.nodes["node-2"]
    installed.apply([_on(gang("steady", pods=2, cpu="50m", command="sleep 70"), "node-2")])
    wait_for_phase(installed, "steady", "Running")
    before = {pod["metadata"]["uid"] for pod in pods_of(installed, "steady")}
    node.stop_kubelet()
    try:
        wait_for(lambda: installed.kubectl("get", "node", "node-2", f"--output={_READY}") != "True", "the node to be missed", 90)
    finally:
        node.start_kubelet()
    wait_for_phase(installed, "steady", "Completed", 120)
    assert {pod["metadata"]["uid"] for pod in pods_of(installed, "steady")} == before
    installed.kubectl("delete", "vcjob", "steady")


def test_a_job_that_a_node_evicts_for_its_memory_restarts_on_another_node(installed: Cluster) -> None:
    node = installed.nodes["node-3"]
    before = {key: node.kubelet[key] for key in ("evictionHard", "systemReserved")}
    job = gang("evicted", pods=1, cpu="50m", command="sleep 600", policies=[{"event": "PodFailed", "action": "RestartJob"}])
    spec = job["spec"]["tasks"][0]["template"]["spec"]
    spec["containers"][0]["resources"] = {}
    prefer = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-3"]}]}
    terms = [{"weight": 100, "preference": prefer}]
    spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    installed.apply([job])
    wait_for_phase(installed, "evicted", "Running")
    assert [pod["spec"]["nodeName"] for pod in pods_of(installed, "evicted")] == ["node-3"]
    # with a limit for the group of all pods, the kubelet would try to set it to the one percent that remains, and end
    hard = {**before["evictionHard"], "memory.available": "99%"}
    node.configure_kubelet(evictionHard=hard, systemReserved={}, enforceNodeAllocatable=["none"])
    try:
        wait_for(
            lambda: "(Evicted: " in installed.kubectl("describe", "vcjob", "evicted"), "the Job to tell of the eviction", 120
        )
        wait_for_phase(installed, "evicted", "Running", 120)
        assert [pod["spec"]["nodeName"] for pod in pods_of(installed, "evicted")] != ["node-3"]
    finally:
        node.configure_kubelet(**before, evictionPressureTransitionPeriod="5s")
    wait_for(lambda: installed.kubectl("get", "node", "node-3", f"--output={_PRESSURE}") == "False", "the pressure to end", 120)
    installed.kubectl("delete", "vcjob", "evicted")
    installed.kubectl("delete", "pods", _SYSTEM, "--field-selector=status.phase=Failed")


def test_no_job_is_lost_while_all_programs_restart(installed: Cluster) -> None:
    installed.kubectl("rollout", "restart", "deployment", _SYSTEM)
    names = []
    end = time.monotonic() + 300
    while time.monotonic() < end and not (names and _is_rolled_out(installed)):
        names.append(f"load-{len(names)}")
        installed.apply([gang(names[-1], pods=2, cpu="20m", command="true")])
        time.sleep(2)
    for name in names:
        wait_for_phase(installed, name, "Completed", 120)
    print(f"{len(names)} Jobs while all programs restarted")
    installed.kubectl("delete", "vcjob", *names)


def _is_rolled_out(cluster: Cluster) -> bool:
    def is_new(item: dict[str, Any]) -> bool:
        status, wanted = item["status"], item["spec"]["replicas"]
        current = status.get("observedGeneration") == item["metadata"]["generation"]
        return bool(current and status.get("updatedReplicas") == status.get("readyReplicas") == status.get("replicas") == wanted)

    return all(map(is_new, cluster.get("deployments", _SYSTEM)))


_DATABASE = """
set -e
mkdir -p /run/postgresql && chown postgres /run/postgresql
cd /usr/lib/postgresql/*/bin
su postgres -c "$PWD/initdb -D /var/lib/postgresql/data -A trust" >/dev/null
echo "host all all all trust" >> /var/lib/postgresql/data/pg_hba.conf
exec su postgres -c "$PWD/postgres -D /var/lib/postgresql/data -c listen_addresses='*'"
"""


def test_the_recorder_keeps_its_history_in_postgresql(installed: Cluster, release: Release) -> None:
    installed.load(images.POSTGRES)
    labels = {"app": "database"}
    container = {"name": "postgres", "image": images.POSTGRES, "command": ["sh", "-c", _DATABASE]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    meta = {"name": "database", "namespace": "pyroclast-system"}
    url = "postgresql://postgres@database/postgres"
    installed.apply(
        [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": meta,
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            },
            {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": [{"port": 5432}]}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": "history"}, "stringData": {"url": url}},
        ]
    )
    installed.kubectl("rollout", "status", "deployment/database", _SYSTEM, "--timeout=60s")
    release.upgrade("custom.recorder_database_secret=history", "custom.recorder_replicas=2")
    installed.apply([gang("kept", pods=2, cpu="50m", command="exit 3")])
    wait_for_phase(installed, "kept", "Failed")
    installed.kubectl("delete", "vcjob", "kept")
    ask = "select j.phase, p.exit_code from jobs j join pods p on p.job = j.uid where j.name = 'kept' and j.removed is not null"

    def rows() -> list[str]:
        psql = ("exec", _SYSTEM, "deployment/database", "--", "psql", "-U", "postgres", "-h", "127.0.0.1", "-tAc", ask)
        return installed.kubectl(*psql).split()

    wait_for(lambda: "Failed|3" in rows(), "the history in the database")
    release.upgrade()
    installed.kubectl("delete", "deployment,service", "database", _SYSTEM)


def test_jobs_go_on_through_an_upgrade_a_rollback_and_an_uninstall(installed: Cluster, release: Release) -> None:
    installed.apply([gang("lasting", pods=3, cpu="50m", command="sleep 3600")])
    wait_for_phase(installed, "lasting", "Running")
    before = {pod["metadata"]["uid"] for pod in pods_of(installed, "lasting")}
    release.upgrade("custom.log_level=debug")
    installed.apply([gang("upgraded", pods=2, cpu="50m", command="true")])
    wait_for_phase(installed, "upgraded", "Completed")
    installed.helm("rollback", "pyroclast", _SYSTEM, "--wait", "--timeout=5m")
    installed.apply([gang("returned", pods=2, cpu="50m", command="true")])
    wait_for_phase(installed, "returned", "Completed")
    installed.helm("uninstall", "pyroclast", _SYSTEM, "--wait", "--timeout=5m")
    try:
        system = {"configmap/kube-root-ca.crt", "serviceaccount/default", "secret/history"}
        kinds = "all,configmap,secret,lease,serviceaccount"

        def is_gone() -> bool:  # also the pod of `helm test`, which goes with its account
            return set(installed.kubectl("get", kinds, _SYSTEM, "--output=name").split()) <= system

        wait_for(is_gone, "everything of the release to go", 90)
        assert {pod["metadata"]["uid"] for pod in pods_of(installed, "lasting")} == before
    finally:
        release.upgrade()
    assert phase_of(installed, "lasting") == "Running"
    assert {pod["metadata"]["uid"] for pod in pods_of(installed, "lasting")} == before
    installed.kubectl("delete", "vcjob", "lasting", "upgraded", "returned")
