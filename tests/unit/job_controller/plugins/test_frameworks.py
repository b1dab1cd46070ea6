"""The plugins of training frameworks, by the table of cases that their users know."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pyroclast.lifecycle.plugins.hcclrank import HcclrankPlugin
from pyroclast.lifecycle.plugins.mpi import MpiPlugin
from pyroclast.lifecycle.plugins.pytorch import PytorchPlugin
from pyroclast.lifecycle.plugins.ray import RayPlugin
from pyroclast.lifecycle.plugins.tensorflow import TensorflowPlugin
from pyroclast_job_controller.plugins.registry import PluginError
from tests.unit.lifecycle.builders import job, task, template

from .helpers import env, pod_of, with_init


def named(name, *tasks, **spec):
    return job(*tasks, metadata={"name": name}, **spec)


def ports(pod, container=0, field="containers"):
    return pod["spec"][field][container].get("ports", [])


# tensorflow

TRAIN = named("train-123", task("ps", 2), task("worker", 2), task("chief", 1))


def tf_config(owner, *arguments, task=0, index=0):
    return env(pod_of(TensorflowPlugin(arguments), owner, task, index)).get("TF_CONFIG")


def test_tf_config_names_the_hosts_of_all_tasks_and_the_task_of_the_pod():
    assert tf_config(TRAIN, "--port=5000") == (
        '{"cluster":{"ps":["train-123-ps-0.train-123:5000","train-123-ps-1.train-123:5000"],'
        '"worker":["train-123-worker-0.train-123:5000","train-123-worker-1.train-123:5000"],'
        '"chief":["train-123-chief-0.train-123:5000"]},"task":{"type":"ps","index":0}}'
    )


@pytest.mark.parametrize(
    ("arguments", "name", "want"),
    [
        ([], "chief", "chief"),
        ([], "worker", "worker"),
        (["--worker=ps"], "ps", "worker"),
        (["--chief=worker"], "worker", "chief"),
        (["--evaluator=ps", "--ps=x"], "ps", "evaluator"),
        (["--ps=x"], "ps", "ps"),
        (["--worker=x"], "worker", "worker"),
    ],
)
def test_tf_config_task_type_follows_the_task_name_and_the_role_flags(arguments, name, want):
    assert json.loads(tf_config(TRAIN, *arguments, task=name, index=1))["task"] == {"type": want, "index": 1}


def test_tf_config_is_set_neither_for_a_single_pod_nor_in_init_containers():
    assert tf_config(job(task("worker", 1))) is None
    assert tf_config(job(task("worker", 2))) is not None
    assert json.loads(tf_config(job(task("a", 2))))["cluster"] == {}
    pod = pod_of(TensorflowPlugin([]), job(task("worker", 2, template=with_init())))
    assert "env" not in pod["spec"]["initContainers"][0]


def test_tf_config_repeats_a_fixed_hostname_for_each_replica():
    owner = job(task("worker", 2, template=template(hostname="h", subdomain="s")), task("ps"))
    assert json.loads(tf_config(owner))["cluster"]["worker"] == ["h.s:2222", "h.s:2222"]


# mpi

MPI = job(task("master", 1, template=with_init()), task("worker", 2, template=with_init()), task("other", 1))


def test_mpi_master_gets_the_worker_hosts_and_all_tasks_get_the_port():
    pod = pod_of(MpiPlugin([]), MPI, "master")
    assert env(pod) == {"MPI_HOST": "j-worker-0.j,j-worker-1.j"}
    assert pod["spec"]["initContainers"][0]["env"] == pod["spec"]["containers"][0]["env"]
    for each in ("master", "worker", "other"):
        assert ports(pod_of(MpiPlugin([]), MPI, each)) == [{"name": "mpijob-port", "containerPort": 22}]
    assert ports(pod_of(MpiPlugin(["--port=5000"]), MPI, "worker"), field="initContainers")[0]["containerPort"] == 5000
    assert "MPI_HOST" not in env(pod_of(MpiPlugin([]), MPI, "worker"))


def test_mpi_port_is_not_added_when_the_container_already_declares_it():
    mine = template()
    mine["spec"]["containers"][0]["ports"] = [{"name": "ssh", "containerPort": 22}]
    pod = pod_of(MpiPlugin([]), job(task("master", template=mine), task("worker")), "master")
    assert ports(pod) == [{"name": "ssh", "containerPort": 22}]


def test_mpi_host_is_empty_without_workers_and_unset_without_a_worker_task():
    assert env(pod_of(MpiPlugin([]), job(task("master"), task("worker", 0)), "master")) == {"MPI_HOST": ""}
    alone = pod_of(MpiPlugin([]), job(task("master"), task("b")), "master")
    assert (env(alone), ports(alone)) == ({}, [])


def test_mpi_host_lists_a_fixed_worker_hostname_once():
    owner = job(task("master"), task("worker", 3, template=template(hostname="h", subdomain="s")))
    assert env(pod_of(MpiPlugin([]), owner, "master")) == {"MPI_HOST": "h.s"}


# pytorch

TORCH = named("test-pytorch", task("master", 1), task("worker", 2), task("extra", 1))


@pytest.mark.parametrize(
    ("name", "index", "want"),
    [("master", 0, {"RANK": "0"}), ("worker", 0, {"RANK": "1"}), ("worker", 1, {"RANK": "2"}), ("extra", 0, {})],
)
def test_pytorch_sets_the_master_address_and_the_rank_of_each_pod(name, index, want):
    common = {"MASTER_ADDR": "test-pytorch-master-0.test-pytorch", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    pod = pod_of(PytorchPlugin([]), TORCH, name, index)
    assert env(pod) == common | want
    assert ports(pod) == [{"name": "pytorchjob-port", "containerPort": 23456}]


def test_pytorch_changes_nothing_in_a_job_without_a_master_task():
    owner = job(task("worker", 2))
    assert pod_of(PytorchPlugin([]), owner)["spec"] == pod_of(HcclrankPlugin(["--worker=x"]), owner)["spec"]


def test_pytorch_leaves_init_containers_and_an_already_declared_port_unchanged():
    mine = with_init()
    mine["spec"]["containers"][0]["ports"] = [{"name": "mine", "containerPort": 123}]
    pod = pod_of(PytorchPlugin(["--port=123"]), job(task("master", template=mine), task("worker")), "master")
    assert (pod["spec"]["initContainers"], ports(pod)) == ([{"name": "i"}], [{"name": "mine", "containerPort": 123}])


@pytest.mark.parametrize(
    ("arguments", "name", "want"),
    [
        ([], "worker", []),
        (["--wait-master-enabled=false"], "worker", []),
        (["--wait-master-enabled"], "master", []),
        (["--wait-master-enabled"], "extra", []),
        (["--wait-master-enabled"], "worker", ["busybox"]),
        (["--wait-master-enabled=true", "--wait-master-image=mine"], "worker", ["mine"]),
    ],
)
def test_only_pytorch_workers_wait_for_the_master_and_only_when_enabled(arguments, name, want):
    pod = pod_of(PytorchPlugin(arguments), TORCH, name)
    assert [one["image"] for one in pod["spec"].get("initContainers", ()) if one["name"] == "wait-for-master"] == want


def test_wait_for_master_init_container_is_appended_unless_the_template_has_one():
    mine = with_init()
    owner = job(task("master"), task("worker", template=mine))
    plugin = PytorchPlugin(["--wait-master-enabled", "--wait-master-timeout=9"])
    containers = pod_of(plugin, owner, "worker")["spec"]["initContainers"]
    assert [one["name"] for one in containers] == ["i", "wait-for-master"]
    assert set(containers[-1]) == {"name", "image", "command"}
    assert "-ge 9 " in containers[-1]["command"][2]
    mine["spec"]["initContainers"] = [{"name": "wait-for-master", "image": "own"}]
    owner = job(task("master"), task("worker", template=mine))
    assert pod_of(plugin, owner, "worker")["spec"]["initContainers"] == [{"name": "wait-for-master", "image": "own"}]


@pytest.mark.parametrize("programs", [["python3"], ["bash"]])
def test_wait_for_master_connects_with_what_the_image_has(tmp_path, programs):
    for program in ["sh", "sleep", *programs]:
        (tmp_path / program).symlink_to(Path(sys.executable).resolve() if program == "python3" else shutil.which(program))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        plugin = PytorchPlugin(["--wait-master-enabled", "--wait-master-timeout=0", f"--port={port}"])
        script = pod_of(plugin, TORCH, "worker")["spec"]["initContainers"][-1]["command"][2]
        local = script.replace(env(pod_of(plugin, TORCH, "worker"))["MASTER_ADDR"], "127.0.0.1")
        assert subprocess.run([str(tmp_path / "sh"), "-c", local], env={"PATH": str(tmp_path)}, check=False).returncode == 0
    assert subprocess.run([str(tmp_path / "sh"), "-c", local], env={"PATH": str(tmp_path)}, check=False).returncode == 1


# ray


def ray_template(name, **container):
    mine = {"name": name, "image": "ray", "args": ["kept"], **container}
    return {"spec": {"containers": [mine, {"name": "side", "image": "x"}]}}


RAY = job(task("head", template=ray_template("head")), task("worker", 2, template=ray_template("worker")), task("other"))


def commands(pod):
    return [container.get("command") for container in pod["spec"]["containers"]]


def test_head_and_workers_start_ray():
    head = pod_of(RayPlugin([]), RAY, "head")
    line = "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001"
    assert commands(head) == [["sh", "-c", line], None]
    assert [(port["name"], port["containerPort"]) for port in ports(head)] == [
        ("gcs", 6379),
        ("dashboard", 8265),
        ("client-server", 10001),
    ]
    worker = pod_of(RayPlugin([]), RAY, "worker", 1)
    assert commands(worker) == [["sh", "-c", "ray start --block --address=j-head-0.j:6379"], None]
    assert (ports(worker), worker["spec"]["containers"][0]["args"]) == ([], ["kept"])
    assert commands(pod_of(RayPlugin([]), RAY, "other")) == [None]


def test_ports_and_names_of_ray_can_be_set():
    owner = job(task("h", template=ray_template("hc")), task("w", template=ray_template("wc")))
    names = ["--head=h", "--headContainer=hc", "--worker=w", "--workerContainer=wc"]
    flags = [*names, "--port=1", "--dashboardPort=2", "--clientPort=3"]
    assert "--port=1 --dashboard-port=2 --ray-client-server-port=3" in commands(pod_of(RayPlugin(flags), owner, "h"))[0][2]
    assert commands(pod_of(RayPlugin(flags), owner, "w"))[0][2].endswith("--address=j-h-0.j:1")
    (service,) = RayPlugin(flags).objects(owner)
    assert (service.name, service.body["spec"]["selector"]["volcano.sh/task-spec"]) == ("j-head-svc", "h")
    assert [(port["name"], port["port"], port["targetPort"]) for port in service.body["spec"]["ports"]] == [
        ("gcs", 1, "gcs"),
        ("dashboard", 2, "dashboard"),
        ("client-server", 3, "client-server"),
    ]


def test_ray_service_targets_a_differently_named_port_by_its_number():
    mine = ray_template("head", ports=[{"name": "redis", "containerPort": 6379}, {"name": "dashboard", "containerPort": 8265}])
    (service,) = RayPlugin([]).objects(job(task("head", template=mine)))
    assert [port["targetPort"] for port in service.body["spec"]["ports"]] == [6379, "dashboard", "client-server"]


def test_ray_raises_an_error_for_a_job_without_a_head_task():
    owner = job(task("worker"))
    with pytest.raises(PluginError, match=r"^job j doesn't have head task head$"):
        pod_of(RayPlugin([]), owner)
    with pytest.raises(PluginError, match=r"^job j doesn't have head task boss$"):
        RayPlugin(["--head=boss"]).objects(owner)


# hcclrank


def ranked(*values):
    """A template with a variable RANK for each value; None comes from elsewhere."""
    given = template()
    given["spec"]["containers"][0]["env"] = [
        {"name": "RANK", "valueFrom": {}} if value is None else {"name": "RANK", "value": value} for value in values
    ]
    return given


@pytest.mark.parametrize(
    ("tasks", "name", "index", "want"),
    [
        ([task("master", 3)], "master", 2, "2"),
        ([task("master", 2), task("worker", 2)], "worker", 1, "3"),
        ([task("master", 4), task("worker", 3)], "worker", 2, "6"),
        ([task("worker", 3)], "worker", 2, "2"),
        ([task("other", 3)], "other", 2, None),
        ([task("worker", template=ranked("5"))], "worker", 0, "5"),
        ([task("other", template=ranked("5", "6"))], "other", 0, "5"),
        (
            [task("worker", template=ranked(None, "6"))],
            "worker",
            0,
            "0",
        ),
        ([task("worker", template={"metadata": {"annotations": {"hccl/rankIndex": "1"}}, **template()})], "worker", 0, "1"),
    ],
)
def test_hcclrank_annotates_the_rank_from_the_role_or_the_rank_variable(tasks, name, index, want):
    pod = pod_of(HcclrankPlugin([]), job(*tasks), name, index)
    assert pod["metadata"]["annotations"].get("hccl/rankIndex") == want


def test_roles_of_hcclrank_can_be_named():
    owner = job(task("m", 2), task("w", 2))
    pod = pod_of(HcclrankPlugin(["--master=m", "--worker=w"]), owner, "w", 1)
    assert pod["metadata"]["annotations"]["hccl/rankIndex"] == "3"


@pytest.mark.parametrize(("replicas", "is_set"), [(1000, True), (20_000, False)])
def test_tf_config_too_long_for_a_variable_is_left_out_with_a_warning(replicas, is_set):
    owner = job(task("ps", 1), task("worker", replicas))
    plugin = TensorflowPlugin([])
    assert ("TF_CONFIG" in env(pod_of(plugin, owner, "ps"))) is is_set
    assert bool(plugin.warnings(owner)) is not is_set
