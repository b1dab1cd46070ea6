from importlib import metadata

import pytest

from pyroclast.lifecycle import pods
from pyroclast_job_controller.plugins import registry
from pyroclast_job_controller.plugins.arguments import parse
from pyroclast_job_controller.plugins.base import JobPlugin
from pyroclast_job_controller.plugins.env import EnvPlugin
from pyroclast_job_controller.plugins.svc import SvcPlugin
from tests.unit.lifecycle.builders import job, task, template

DEFAULTS = {"flag": False, "on": True, "port": 22, "name": "worker"}


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], {}),
        (["--flag"], {"flag": True}),
        (["-flag"], {"flag": True}),
        (["--flag=t", "--on=F"], {"flag": True, "on": False}),
        (["--flag", "false", "--port=1"], {"flag": True}),
        (["--port", "2026"], {"port": 2026}),
        (["--port=0x10", "--name=x"], {"port": 16, "name": "x"}),
        (["--port=010"], {"port": 8}),
        (["--port=1_000"], {"port": 1000}),
        (["--port=-10"], {"port": -10}),
        (["--port=1", "--port=2"], {"port": 2}),
        (["--name=", "--flag"], {"name": "", "flag": True}),
        (["--name=x", "--", "--flag"], {"name": "x"}),
        (["--name=x", "word", "--flag"], {"name": "x"}),
        (["--name=x", "--no-such=1", "--flag"], {"name": "x"}),
        (["--name=x", "--port=many", "--flag"], {"name": "x"}),
        (["--name=x", "--port=08"], {"name": "x"}),
        (["--flag=maybe", "--name=x"], {}),
        (["--port"], {}),
        (["--port 22"], {}),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments, want):
    assert parse("p", arguments, DEFAULTS) == {**DEFAULTS, **want}


def adapted(plugin, owner, index=0, task_index=0):
    spec = owner.spec.tasks[task_index]
    pod = pods.build(owner, spec, index)
    plugin.adapt(owner, spec, index, pod)
    return pod["spec"]


def with_init():
    both = template()
    both["spec"]["initContainers"] = [{"name": "i"}]
    return both


def test_env_tells_all_containers_their_index_after_what_they_have():
    given = with_init()
    given["spec"]["containers"][0]["env"] = [{"name": "MINE", "value": "x"}]
    spec = adapted(EnvPlugin([]), job(task(replicas=2, template=given)), index=1)
    ours = [{"name": "VK_TASK_INDEX", "value": "1"}, {"name": "VC_TASK_INDEX", "value": "1"}]
    assert spec["containers"][0]["env"] == [{"name": "MINE", "value": "x"}, *ours]
    assert spec["initContainers"][0]["env"] == ours


def test_env_tells_the_name_of_the_task_when_asked_to():
    spec = adapted(EnvPlugin(["--task-name"]), job(task("w")))
    assert spec["containers"][0]["env"][-1] == {"name": "VC_TASK_NAME", "value": "w"}


OWNER = job(task("my-ps", 2, template=with_init()), task("w", 0, minAvailable=0))


def bodies(*arguments, owner=OWNER):
    return {item.kind.kind: item for item in SvcPlugin(arguments).objects(owner)}


def test_svc_lists_the_hosts_of_every_task():
    made = bodies()
    assert (made["ConfigMap"].name, made["ConfigMap"].follows) == ("j-svc", ("data",))
    assert made["ConfigMap"].body["data"] == {
        "my_ps.host": "j-my-ps-0.j\nj-my-ps-1.j",
        "VC_MY_PS_HOSTS": "j-my-ps-0.j,j-my-ps-1.j",
        "VC_MY_PS_NUM": "2",
        "w.host": "",
        "VC_W_HOSTS": "",
        "VC_W_NUM": "0",
    }


def test_svc_knows_only_one_host_when_the_template_names_it():
    owner = job(task("a", 3, template=template(hostname="h", subdomain="s")))
    data = bodies(owner=owner)["ConfigMap"].body["data"]
    assert (data["VC_A_HOSTS"], data["VC_A_NUM"]) == ("h.s", "1")


def test_svc_makes_a_headless_service_and_a_policy():
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


def test_svc_names_the_pod_and_mounts_the_lists():
    spec = adapted(SvcPlugin([]), OWNER, index=1)
    assert (spec["hostname"], spec["subdomain"]) == ("j-my-ps-1", "j")
    assert spec["volumes"] == [{"name": "j-svc", "configMap": {"name": "j-svc"}}]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert [each["name"] for each in container["env"]] == ["VC_MY_PS_HOSTS", "VC_MY_PS_NUM", "VC_W_HOSTS", "VC_W_NUM"]
        reference = {"name": "j-svc", "key": "VC_MY_PS_HOSTS"}
        assert container["env"][0]["valueFrom"] == {"configMapKeyRef": reference}
        assert container["volumeMounts"] == [{"mountPath": "/etc/volcano", "name": "j-svc"}]


def test_svc_without_variables_still_mounts():
    spec = adapted(SvcPlugin(["--inject-hosts-env=false"]), OWNER)
    assert "env" not in spec["containers"][0]
    assert spec["containers"][0]["volumeMounts"]


def test_svc_leaves_names_that_the_template_gives():
    spec = adapted(SvcPlugin([]), job(task(template=template(hostname="h", subdomain="s"))))
    assert (spec["hostname"], spec["subdomain"]) == ("h", "s")


def test_plugins_come_in_a_fixed_order_and_leave_marks():
    owner = job(plugins={"svc": [], "env": []})
    assert [plugin.name for plugin in registry.plugins_of(owner)] == ["env", "svc"]
    assert registry.marks_of(owner) == {"plugin-env": "env", "plugin-svc": "svc"}


def test_a_plugin_that_is_not_there_is_named():
    owner = job(plugins={"nobody": []})
    with pytest.raises(registry.UnknownPlugin, match=r"^failed to get plugin nobody$"):
        registry.plugins_of(owner)
    assert registry.marks_of(owner) == {"plugin-nobody": "nobody"}


class Stamp(JobPlugin):
    """A plugin of somebody else."""

    name = "stamp"
    mark = False

    def adapt(self, job, task, index, pod):
        pod["metadata"]["annotations"]["stamp"] = ",".join(self.arguments)


def test_third_parties_add_theirs_by_an_entry_point(monkeypatch):
    point = metadata.EntryPoint("stamp", f"{__name__}:Stamp", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
    registry.known.cache_clear()
    try:
        owner = job(plugins={"stamp": ["x", "y"], "env": []})
        names = [plugin.name for plugin in registry.plugins_of(owner)]
        assert (names, registry.marks_of(owner)) == (["env", "stamp"], {"plugin-env": "env"})
    finally:
        registry.known.cache_clear()
