import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyroclast.api.jobplugins import LONGEST_HOST_LIST, MOST_IN_VARIABLES
from pyroclast.lifecycle.plugins import svc
from pyroclast.lifecycle.plugins.mpi import MpiPlugin
from pyroclast.lifecycle.plugins.svc import SvcPlugin
from tests.unit.lifecycle.builders import job, task, template

from .helpers import pod_of, with_init

OWNER = job(task("my-ps", 2, template=with_init()), task("w", 0, minAvailable=0))


def bodies(*arguments, owner=OWNER):
    return {item.kind.kind: item for item in SvcPlugin(arguments).objects(owner)}


def test_svc_configmap_lists_the_hosts_of_every_task():
    made = bodies()
    assert (made["ConfigMap"].name, made["ConfigMap"].follows) == ("j-svc", (("data",),))
    assert made["ConfigMap"].body["data"] == {
        "my_ps.host": "j-my-ps-0.j\nj-my-ps-1.j",
        "VC_MY_PS_HOSTS": "j-my-ps-0.j,j-my-ps-1.j",
        "VC_MY_PS_NUM": "2",
        "w.host": "",
        "VC_W_HOSTS": "",
        "VC_W_NUM": "0",
    }


def test_fixed_hostname_in_the_template_yields_one_host():
    owner = job(task("a", 3, template=template(hostname="h", subdomain="s")))
    data = bodies(owner=owner)["ConfigMap"].body["data"]
    assert (data["VC_A_HOSTS"], data["VC_A_NUM"]) == ("h.s", "1")


def test_svc_creates_a_headless_service_and_a_network_policy():
    selector = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "n"}
    made = bodies()
    assert made["Service"].body == {"spec": {"clusterIP": "None", "selector": selector}}
    assert made["NetworkPolicy"].body["spec"] == {
        "podSelector": {"matchLabels": selector},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": selector}}]}],
    }
    assert bodies("--publish-not-ready-addresses")["Service"].body["spec"]["publishNotReadyAddresses"] is True
    assert set(bodies("--disable-network-policy=true")) == {"ConfigMap", "Service"}


def test_pod_gets_hostname_subdomain_host_variables_and_the_mounted_configmap():
    spec = pod_of(SvcPlugin([]), OWNER, index=1)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("j-my-ps-1", "j")
    assert spec["volumes"] == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert [each["name"] for each in container["env"]] == ["VC_MY_PS_HOSTS", "VC_MY_PS_NUM", "VC_W_HOSTS", "VC_W_NUM"]
        reference = {"name": "j-svc", "key": "VC_MY_PS_HOSTS"}
        assert container["env"][0]["valueFrom"] == {"configMapKeyRef": reference}
        assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "j-svc"}]


def test_host_lists_are_mounted_even_without_host_variables():
    spec = pod_of(SvcPlugin(["--inject-hosts-env=false"]), OWNER)["spec"]
    assert "env" not in spec["containers"][0]
    assert spec["containers"][0]["volumeMounts"]


def test_hostname_and_subdomain_of_the_template_are_kept():
    spec = pod_of(SvcPlugin([]), job(task(template=template(hostname="h", subdomain="s"))))["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("h", "s")


WAIT = ["--wait-for-workers"]


def waiting_in(pod):
    return [one for one in pod["spec"].get("initContainers", ()) if one["name"] == svc.NAME]


def test_launcher_does_not_wait_without_the_flag_and_workers_never_wait():
    owner = job(task("launcher"), task("worker", 2))
    assert not waiting_in(pod_of(SvcPlugin([]), owner, "launcher"))
    assert not waiting_in(pod_of(SvcPlugin(WAIT), owner, "worker"))


def test_launcher_waits_for_min_available_worker_hosts_after_its_init_containers():
    owner = job(task("launcher", template=with_init()), task("worker", 3, minAvailable=2))
    spec = pod_of(SvcPlugin([*WAIT, "--wait-image=mine"]), owner, "launcher")["spec"]
    assert [one["name"] for one in spec["initContainers"]] == ["i", "wait-for-workers"]
    container = spec["initContainers"][-1]
    assert (container["image"], container["command"][:2]) == ("mine", ["sh", "-c"])
    assert "j-worker-0.j j-worker-1.j j-worker-2.j" in container["command"][2]
    assert '"$found" -ge 2' in container["command"][2]


@pytest.mark.parametrize(
    ("plugins", "given", "tasks", "want"),
    [
        ({}, "", ["worker", "launcher", "master"], "launcher"),
        ({}, "", ["worker", "master"], "master"),
        ({}, "", ["a", "b"], ""),
        ({}, "b", ["a", "b", "launcher"], "b"),
        ({"mpi": ["--master=boss"]}, "", ["boss", "launcher"], "boss"),
        ({"mpi": []}, "a", ["a", "master"], "a"),
    ],
)
def test_launcher_is_the_given_task_the_mpi_master_or_a_task_with_a_default_name(plugins, given, tasks, want):
    assert svc.launcher(job(*map(task, tasks), plugins={"svc": [], **plugins}), given) == want


@pytest.mark.parametrize(
    ("plugins", "tasks", "want"),
    [
        ({}, [task("launcher"), task("a"), task("b")], ["a", "b"]),
        ({"mpi": ["--worker=b"]}, [task("launcher"), task("a"), task("b")], ["b"]),
        ({}, [task("launcher"), task("a", 2, minAvailable=0)], []),
        ({}, [task("launcher"), task("a", dependsOn={"name": ["launcher"]}), task("b", dependsOn={"name": ["a"]})], []),
    ],
)
def test_launcher_waits_only_for_required_tasks_that_do_not_depend_on_it(plugins, tasks, want):
    owner = job(*tasks, plugins=plugins)
    assert [each.name for each in svc.workers(owner, owner.spec.tasks[0])] == want


@pytest.mark.parametrize(("replicas", "is_listed"), [(2000, True), (20_000, False)])
def test_host_list_too_long_for_a_variable_is_only_in_its_file_with_a_warning(replicas, is_listed):
    owner = job(task("w", replicas))
    data = bodies(owner=owner)["ConfigMap"].body["data"]
    assert bool(SvcPlugin([]).warnings(owner)) is not is_listed
    assert ("VC_W_HOSTS" in data) is is_listed
    assert data["VC_W_NUM"] == str(replicas)
    assert data["w.host"].count("\n") == replicas - 1
    names = {each["name"] for each in pod_of(SvcPlugin([]), owner)["spec"]["containers"][0]["env"]}
    assert names == ({"VC_W_HOSTS", "VC_W_NUM"} if is_listed else {"VC_W_NUM"})


@pytest.mark.parametrize(("replicas", "is_set"), [(2000, True), (20_000, False)])
def test_mpi_host_too_long_for_a_variable_is_left_out_with_a_warning(replicas, is_set):
    master = pod_of(MpiPlugin([]), job(task("master", 1), task("worker", replicas)))
    env = {each["name"]: each["value"] for each in master["spec"]["containers"][0].get("env", [])}
    assert ("MPI_HOST" in env) is is_set
    assert bool(MpiPlugin([]).warnings(job(task("master", 1), task("worker", replicas)))) is not is_set
    assert all(len(value) <= LONGEST_HOST_LIST for value in env.values())


def test_host_variables_of_all_tasks_together_stay_within_the_size_limit():
    owner = job(*(task(f"t{number}", 5000) for number in range(12)))
    names = {each["name"] for each in pod_of(SvcPlugin([]), owner)["spec"]["containers"][0]["env"]}
    (first, *_) = maps = [item for item in SvcPlugin([]).objects(owner) if item.kind.kind == "ConfigMap"]
    listed = {name for name in first.body["data"] if name.endswith("_HOSTS")}
    assert 0 < sum(len(first.body["data"][name]) for name in listed) <= MOST_IN_VARIABLES
    assert names == listed | {f"VC_T{number}_NUM" for number in range(12)}
    assert len(SvcPlugin([]).warnings(owner)) == 12 - len(listed)
    assert all(size(item) <= 1_000_000 for item in maps)


def size(item):
    return sum(len(key) + len(value) for key, value in item.body["data"].items())


@pytest.mark.parametrize(("replicas", "count"), [(20_000, 1), (50_000, 1), (100_000, 2), (300_000, 5)])
def test_host_list_too_large_for_one_configmap_is_split_over_several_without_loss(replicas, count):
    owner = job(task("w", replicas), task("l", 1))
    maps = [item for item in SvcPlugin([]).objects(owner) if item.kind.kind == "ConfigMap"]
    assert [item.name for item in maps] == ["j-svc", *(f"j-svc-{number}" for number in range(1, count))]
    assert all(size(item) <= 1_000_000 for item in maps)
    files = {name: text for item in maps for name, text in item.body["data"].items() if name.startswith("w.host")}
    whole = "".join(files[name] for name in sorted(files)).split("\n")
    assert whole == [f"j-w-{index}.j" for index in range(replicas)]
    (volume,) = pod_of(SvcPlugin([]), owner, "l")["spec"]["volumes"]
    if count == 1:
        assert volume["configMap"] == {"name": "j-svc"}
    else:
        sources = [source["configMap"] for source in volume["projected"]["sources"]]
        assert [source["name"] for source in sources] == [item.name for item in maps]
        assert [source.get("optional", False) for source in sources] == [False] + [True] * (count - 1)


def test_wait_script_for_fifty_thousand_workers_is_short_and_names_all_hosts():
    owner = job(task("launcher"), task("worker", 50_000))
    (container,) = waiting_in(pod_of(SvcPlugin(WAIT), owner, "launcher"))
    script = container["command"][2]
    assert len(script) < LONGEST_HOST_LIST
    listing = next(line for line in script.splitlines() if "for host in" in line).partition(" in ")[2].removesuffix("; do")
    told = subprocess.run(["sh", "-c", f"for host in {listing}; do echo $host; done"], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [f"j-worker-{index}.j" for index in range(50_000)]


def _tools(folder, *names):
    """What an image has, with a `sleep` that takes no time."""
    for name in ["sh", "sed", *names]:
        (folder / name).symlink_to(Path(sys.executable).resolve() if name == "python3" else shutil.which(name))
    (folder / "sleep").symlink_to(shutil.which("true"))


def test_launcher_waits_until_names_resolve_three_times_as_a_cluster_has_several_dns_servers(tmp_path):
    _tools(tmp_path)
    count = tmp_path / "count"
    count.write_text("0\n")
    getent = f"#!{tmp_path}/sh\nread n <{count}; n=$((n + 1)); echo $n >{count}; [ $n -ne 3 ]\n"
    (tmp_path / "getent").write_text(getent)
    (tmp_path / "getent").chmod(0o755)
    (container,) = waiting_in(pod_of(SvcPlugin(WAIT), job(task("launcher"), task("worker", 2)), "launcher"))
    command = [str(tmp_path / "sh"), "-c", container["command"][2]]
    ended = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=20, check=True)
    again = "1 of 2 names of task worker resolve, waiting for more\n"
    assert ended.stdout == f"{again}2 names of task worker resolve\n"
    assert count.read_text() == "10\n", "three rounds after the one that failed"


@pytest.mark.parametrize("program", ["getent", "python3"])
def test_launcher_resolves_names_with_what_the_image_has(tmp_path, program):
    _tools(tmp_path, program)
    (container,) = waiting_in(pod_of(SvcPlugin(WAIT), job(task("launcher"), task("worker", 2)), "launcher"))
    script = container["command"][2].replace("j-worker-0.j", "localhost").replace("j-worker-1.j", "127.0.0.1")
    ended = subprocess.run(
        [str(tmp_path / "sh"), "-c", script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=20, check=True
    )
    assert ended.stdout == "2 names of task worker resolve\n"
