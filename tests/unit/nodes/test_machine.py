"""The size of this machine, the limits of containers on it, and who gets which GPU. The files are made below a folder."""

import json

import pytest

from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.processes.limits import Amounts, find_groups
from pyroclast_standalone.nodes.processes.machine import Devices, Gpu, find_machine
from pyroclast_standalone.nodes.processes.submitters import account_of

SMI = """GPU-aaaa, NVIDIA A100-SXM4-80GB, 00000000:41:00.0
GPU-bbbb, NVIDIA A100-SXM4-80GB, 00000000:01:00.0
"""
INFORMATION = "Model: \t\t NVIDIA A100\nGPU UUID: \t {}\nDevice Minor: \t {}\n"


def written(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def machine(root, said="", name="Lab.Example_1"):
    return find_machine(16, root, lambda _: said, name)


def test_machine_without_gpus_offers_its_processors_and_its_memory(tmp_path):
    found = machine(written(tmp_path, proc__meminfo="MemTotal:  1024 kB\nMemFree: 1 kB\n"))
    assert found.resources == {"cpu": "16", "memory": "1024Ki"}
    assert (found.name, str(found)) == ("lab.example-1", "lab.example-1: 16 CPUs, 0.0 GiB, no GPU")


@pytest.mark.parametrize("file", ["sys__fs__cgroup__memory.max", "sys__fs__cgroup__memory__memory.limit_in_bytes"])
@pytest.mark.parametrize(("limit", "want"), [("524288\n", "512Ki"), ("max\n", "1024Ki"), ("9223372036854771712\n", "1024Ki")])
def test_container_offers_no_more_memory_than_it_may_use(tmp_path, file, limit, want):
    root = written(tmp_path, **{"proc__meminfo": "MemTotal: 1024 kB\n", file: limit})
    assert machine(root).resources["memory"] == want


def driver(root):
    for bus, identity, minor in (("0000:01:00.0", "GPU-bbbb", 1), ("0000:41:00.0", "GPU-aaaa", 0)):
        folder = root / "proc/driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        (folder / "information").write_text(INFORMATION.format(identity, minor))


def test_gpus_of_nvidia_smi_have_their_uuids_and_the_device_files_of_the_driver(tmp_path):
    driver(tmp_path)
    found = machine(tmp_path, SMI)
    assert [(gpu.identity, gpu.device) for gpu in found.gpus] == [
        ("GPU-aaaa", f"{tmp_path}/dev/nvidia0"),
        ("GPU-bbbb", f"{tmp_path}/dev/nvidia1"),
    ]
    assert found.resources["nvidia.com/gpu"] == "2"
    assert found.labels == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def test_without_nvidia_smi_the_driver_and_then_the_device_files_say_what_there_is(tmp_path):
    written(tmp_path, dev__nvidia0="", dev__nvidia10="", dev__nvidia2="", dev__nvidiactl="")
    assert [(gpu.identity, gpu.device[-8:]) for gpu in machine(tmp_path).gpus] == [
        ("0", "/nvidia0"),
        ("1", "/nvidia2"),
        ("2", "nvidia10"),
    ]
    driver(tmp_path)
    assert [gpu.identity for gpu in machine(tmp_path).gpus] == ["GPU-bbbb", "GPU-aaaa"]


def test_gpus_are_exclusive_freed_at_the_end_and_kept_over_a_restart(tmp_path):
    gpus = [Gpu(name, "", "") for name in "abc"]
    devices = Devices(gpus, tmp_path)
    assert devices.take("one", "main", 2) == gpus[:2]
    assert devices.take("two", "main", 2) is None
    assert devices.take("two", "main", 1) == gpus[2:]
    again = Devices(gpus, tmp_path)
    assert again.take("one", "main", 2) == gpus[:2]
    again.release("one")
    assert json.loads((tmp_path / "two/gpus").read_text()) == {"main": ["c"]}
    assert Devices(gpus, tmp_path).take("three", "main", 2) == gpus[:2]


def container(**resources):
    return records.Container(name="c", resources=records.Requirements(**resources))


@pytest.mark.parametrize(
    ("requests", "limits", "want"),
    [
        ({"cpu": "2500m"}, {}, (None, None, 2)),
        ({"cpu": "100m"}, {"cpu": "1500m", "memory": "1Gi"}, (2, 1024**3, 1)),
        ({}, {"cpu": 4}, (4, None, 4)),
        ({}, {}, (None, None, None)),
    ],
)
def test_limits_and_threads_follow_from_the_spec(requests, limits, want):
    amounts = Amounts.of(container(requests=requests, limits=limits))
    assert (amounts.processors, amounts.memory_limit, amounts.threads) == want


def test_limits_are_written_into_groups_of_version_2_beside_the_own_group(tmp_path):
    own = tmp_path / "app.slice/own.scope"
    own.mkdir(parents=True)
    group = tmp_path / "app.slice/mine"
    group.mkdir()
    written(tmp_path, **{"cgroup.controllers": "cpu memory"})
    for folder in (group, group / "c"):
        folder.mkdir(exist_ok=True)
        for file in ("cgroup.procs", "memory.max", "cpu.max", "cpu.weight", "memory.swap.max"):
            (folder / file).touch()
    groups = find_groups("mine", tmp_path, "0::/app.slice/own.scope\n")
    assert str(groups) == "memory and cpu by cgroup v2"
    amounts = Amounts.of(container(requests={"cpu": 1}, limits={"cpu": "1500m", "memory": "64Mi"}))
    assert groups.make("c", amounts) == [group / "c"]
    want = {"memory.max": "67108864", "cpu.max": "150000 100000", "cpu.weight": "39", "memory.swap.max": "0"}
    assert {name: (group / "c" / name).read_text() for name in want} == want


def test_without_writable_groups_memory_is_sampled_and_processors_are_chosen(tmp_path):
    groups = find_groups("mine", tmp_path, "5:memory:/own\n4:cpu,cpuacct:/\n")
    assert (groups.memory, groups.cpu) == (None, None)
    assert str(groups) == "memory by sampling, CPUs by affinity"


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("no-such-account", "this machine has no account of that name"),
        ("system:serviceaccount:team:default", "this machine has no account of that name"),
        ("root", "pods of users do not run with the rights of root"),
        ("a\0b", "this machine has no account of that name"),
    ],
)
def test_user_without_an_account_is_refused_with_the_reason(user, why):
    assert why in account_of(user)
