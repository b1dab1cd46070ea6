"""What must hold on real nodes with each change: installation, a gang, MPI, drain, power cut, and images without a name."""

from __future__ import annotations

import time
from pathlib import Path

from tests.real_cluster import images
from tests.real_cluster.conftest import Cluster, Release
from tests.real_cluster.seen import gang, mpi_job, pods_of, wait_for, wait_for_phase

_READY = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'


def test_images_of_admission_and_the_controllers_are_small_and_share_most_layers(built_images: Path) -> None:
    layers = images.sizes(built_images)
    for target in ("admission", "job-controller", "jobflow-controller"):
        assert sum(layers[target].values()) < 150e6, target
    common = set.intersection(*map(set, layers.values()))
    assert sum(layers["admission"][layer] for layer in common) > 140e6


def test_the_commands_of_the_page_for_production_lead_to_an_mpi_job_without_a_warning(release: Release) -> None:
    assert "Phase:          Succeeded" in release.said
    assert release.said.count("POD LOGS") == 1
    assert "  Completed" in release.said
    assert "mpirun --host mpi-worker-0.mpi,mpi-worker-1.mpi" in release.said
    assert release.warnings == []


def test_a_gang_starts_on_all_nodes_together_and_completes(installed: Cluster) -> None:
    installed.kubectl("apply", "--filename=examples/gang.yaml")
    wait_for_phase(installed, "gang", "Completed")
    launcher = installed.kubectl("logs", "gang-launcher-0")
    assert "launcher sees 3 workers" in launcher
    installed.kubectl("delete", "--filename=examples/gang.yaml")


def test_mpirun_starts_ranks_on_other_nodes_over_ssh(installed: Cluster) -> None:
    installed.apply([mpi_job("ring", port=22, ssh=[])])
    wait_for_phase(installed, "ring", "Completed", 120)
    told = installed.kubectl("logs", "ring-launcher-0")
    assert {f"rank {rank} on ring-worker-{rank}" for rank in (0, 1)} <= set(told.splitlines()), told
    installed.kubectl("delete", "vcjob", "ring")


def test_a_drained_node_loses_its_pods_and_the_gang_restarts_elsewhere(installed: Cluster) -> None:
    restart = [{"event": "PodEvicted", "action": "RestartJob"}]
    installed.apply([gang("drained", pods=3, cpu="50m", command="sleep 300", policies=restart)])
    wait_for_phase(installed, "drained", "Running")
    node = pods_of(installed, "drained")[0]["spec"]["nodeName"]
    installed.kubectl("cordon", node)
    try:
        installed.kubectl("delete", "pods", "--selector=volcano.sh/job-name=drained", f"--field-selector=spec.nodeName={node}")

        def elsewhere() -> bool:
            pods = pods_of(installed, "drained")
            running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            return len(running) == 3 and all(pod["spec"]["nodeName"] != node for pod in running)

        wait_for(elsewhere, "the gang on the other nodes", 90)
    finally:
        installed.kubectl("uncordon", node)
        installed.kubectl("delete", "vcjob", "drained")


def test_an_image_without_a_name_does_not_hide_its_node(installed: Cluster) -> None:
    """An image whose only name moves to another image stays on the node without a name: kubelet reports `names: null`."""
    node = installed.nodes["node-2"]
    for source in (images.BUSYBOX, images.MPI):
        full = source if "/" in source else node.enter("ctr", "-n", "k8s.io", "images", "ls", "-q", f"name~={source}").split()[0]
        node.enter("ctr", "-n", "k8s.io", "images", "tag", "--force", full, "example.org/moves:1")

    def reported() -> bool:
        status = installed.get("node", "node-2")[0]["status"]
        return any(not image.get("names") for image in status.get("images", []))

    node.enter("ctr", "-n", "k8s.io", "images", "rm", images.MPI, check=False)
    node.enter("ctr", "-n", "k8s.io", "images", "tag", "--force", images.PYTHON, "example.org/moves:1")
    wait_for(reported, "an image without a name in the status of the node", 120)
    pinned = gang("named", pods=1, cpu="50m", command="true")
    pinned["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-2"}
    installed.apply([pinned])
    wait_for_phase(installed, "named", "Completed", 60)
    installed.kubectl("delete", "vcjob", "named")


def test_work_goes_on_after_a_power_cut_of_the_node_that_holds_the_leaders(installed: Cluster) -> None:
    lease = installed.get("lease", "--namespace=pyroclast-system")
    holders = {each["metadata"]["name"]: each["spec"].get("holderIdentity", "") for each in lease}
    pods = installed.get("pods", "--namespace=pyroclast-system")
    places = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
    scheduler = next(places[pod] for name, holder in holders.items() for pod in places if "scheduler" in pod and pod in holder)
    if scheduler == "node-1":  # the control plane runs in its network
        scheduler = "node-2"
    node = installed.nodes[scheduler]
    node.cut_power()
    cut = time.monotonic()

    def ready() -> str:
        return installed.kubectl("get", "node", scheduler, f"--output={_READY}")

    def submitted() -> bool:
        try:
            installed.apply([gang("after", pods=2, cpu="50m", command="true")])
        except RuntimeError as error:
            if "failed calling webhook" not in str(error):  # kube-proxy sends calls there until it has seen the change
                raise
            return False
        return True

    try:
        wait_for(lambda: ready() != "True", "the node to be missed", 90)  # before, pods may still be bound to it
        wait_for(submitted, "the Service of admission to forget the pod on that node", 60)
        wait_for_phase(installed, "after", "Completed", 60)
        print(f"a Job completed {time.monotonic() - cut:.0f} s after the power cut of {scheduler}")
    finally:
        node.start()
        wait_for(lambda: ready() == "True" and node.has_all_images, "the node", 180)
        installed.kubectl("delete", "vcjob", "after", "--ignore-not-found")
