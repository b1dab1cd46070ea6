import pytest

from pyroclast.api.jobplugins import LONGEST_HOST_LIST
from pyroclast_job_controller.plugins import waiting
from pyroclast_job_controller.plugins.mpi import MpiPlugin
from pyroclast_job_controller.plugins.svc import SvcPlugin
from tests.unit.lifecycle.builders import job, task, template

from .helpers import pod_of, with_init

OWNER = job(task("my-ps", 2, template=with_init()), task("w", 0, minAvailable=0))


def bodies(*arguments, owner=OWNER):
    return {item.kind.kind: item for item in SvcPlugin(arguments).objects(owner)}


def test_the_hosts_of_every_task_are_listed():
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


def test_a_template_that_names_the_host_leaves_one_address():
    owner = job(task("a", 3, template=template(hostname="h", subdomain="s")))
    data = bodies(owner=owner)["ConfigMap"].body["data"]
    assert (data["VC_A_HOSTS"], data["VC_A_NUM"]) == ("h.s", "1")


def test_a_headless_service_and_a_policy_are_made():
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


def test_the_pod_is_named_and_gets_the_lists():
    spec = pod_of(SvcPlugin([]), OWNER, index=1)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("j-my-ps-1", "j")
    assert spec["volumes"] == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert [each["name"] for each in container["env"]] == ["VC_MY_PS_HOSTS", "VC_MY_PS_NUM", "VC_W_HOSTS", "VC_W_NUM"]
        reference = {"name": "j-svc", "key": "VC_MY_PS_HOSTS"}
        assert container["env"][0]["valueFrom"] == {"configMapKeyRef": reference}
        assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "j-svc"}]


def test_without_variables_the_lists_are_still_mounted():
    spec = pod_of(SvcPlugin(["--inject-hosts-env=false"]), OWNER)["spec"]
    assert "env" not in spec["containers"][0]
    assert spec["containers"][0]["volumeMounts"]


def test_names_that_the_template_gives_are_left():
    spec = pod_of(SvcPlugin([]), job(task(template=template(hostname="h", subdomain="s"))))["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("h", "s")


WAIT = ["--wait-for-workers"]


def waiting_in(pod):
    return [one for one in pod["spec"].get("initContainers", ()) if one["name"] == waiting.NAME]


def test_nothing_waits_unless_asked_for():
    owner = job(task("launcher"), task("worker", 2))
    assert not waiting_in(pod_of(SvcPlugin([]), owner, "launcher"))
    assert not waiting_in(pod_of(SvcPlugin(WAIT), owner, "worker"))


def test_the_launcher_waits_for_the_names_of_its_workers_after_its_own_init_containers():
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
def test_who_launches(plugins, given, tasks, want):
    assert waiting.launcher(job(*map(task, tasks), plugins={"svc": [], **plugins}), given) == want


@pytest.mark.parametrize(
    ("plugins", "tasks", "want"),
    [
        ({}, [task("launcher"), task("a"), task("b")], ["a", "b"]),
        ({"mpi": ["--worker=b"]}, [task("launcher"), task("a"), task("b")], ["b"]),
        ({}, [task("launcher"), task("a", 2, minAvailable=0)], []),
        ({}, [task("launcher"), task("a", dependsOn={"name": ["launcher"]}), task("b", dependsOn={"name": ["a"]})], []),
    ],
)
def test_who_is_waited_for(plugins, tasks, want):
    owner = job(*tasks, plugins=plugins)
    assert [each.name for each in waiting.workers(owner, owner.spec.tasks[0])] == want


@pytest.mark.parametrize(("replicas", "is_listed"), [(2000, True), (20_000, False)])
def test_a_list_that_is_too_long_for_a_variable_stands_in_its_file_alone(replicas, is_listed):
    owner = job(task("w", replicas))
    data = bodies(owner=owner)["ConfigMap"].body["data"]
    assert ("VC_W_HOSTS" in data) is is_listed
    assert data["VC_W_NUM"] == str(replicas)
    assert data["w.host"].count("\n") == replicas - 1
    names = {each["name"] for each in pod_of(SvcPlugin([]), owner)["spec"]["containers"][0]["env"]}
    assert names == ({"VC_W_HOSTS", "VC_W_NUM"} if is_listed else {"VC_W_NUM"})


@pytest.mark.parametrize(("replicas", "is_set"), [(2000, True), (20_000, False)])
def test_more_workers_than_a_variable_can_name_are_left_to_the_file(replicas, is_set):
    master = pod_of(MpiPlugin([]), job(task("master", 1), task("worker", replicas)))
    env = {each["name"]: each["value"] for each in master["spec"]["containers"][0].get("env", [])}
    assert ("MPI_HOST" in env) is is_set
    assert all(len(value) <= LONGEST_HOST_LIST for value in env.values())
