"""Finding plugins and using them, those of third parties included."""

from importlib import metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast.api.types import SECRETS
from pyroclast.lifecycle.gang import pods
from pyroclast_job_controller.plugins import registry
from pyroclast_job_controller.plugins.registry import JobPlugin, PluginError, PluginObject
from tests.unit.lifecycle.builders import job, task

from .helpers import pod_of, with_init


def test_built_in_plugins_match_the_names_and_defaults_known_to_admission():
    assert {name: plugin.name for name, plugin in registry.known().items()} == {name: name for name in BUILT_IN}
    assert {name: plugin([]).flags.values for name, plugin in registry.known().items()} == BUILT_IN


def test_plugins_of_a_job_have_a_fixed_order_and_controlled_resources_entries():
    owner = job(plugins={name: [] for name in reversed(BUILT_IN)})
    assert [plugin.name for plugin in registry.plugins_of(owner)] == list(BUILT_IN)
    assert registry.marks_of(owner) == {f"plugin-{name}": name for name in BUILT_IN if name != "hcclrank"}


def test_no_plugin_modifies_the_manifest_passed_to_it():
    owner = job(*(task(name, 2, template=with_init()) for name in ("master", "worker", "head", "launcher")))
    for name, plugin in registry.known().items():
        arguments = [f"--{flag}" for flag, value in BUILT_IN[name].items() if isinstance(value, bool)]
        for number in range(len(owner.spec.tasks)):
            pod_of(plugin(arguments), owner, number, 1)


NUMBERS = st.sampled_from([22, 2222, 6379, 23456])
VARIABLE = st.fixed_dictionaries({"name": st.sampled_from(["RANK", "A"]), "value": st.text()})
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["head", "worker", "c"]), "image": st.just("x")},
    optional={
        "env": st.none() | st.lists(VARIABLE, max_size=2),
        "ports": st.none() | st.lists(st.fixed_dictionaries({"containerPort": NUMBERS}), max_size=2),
        "volumeMounts": st.lists(st.just({"name": "v", "mountPath": "/v"}), max_size=1),
    },
)
TEMPLATE = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=3)},
    optional={"initContainers": st.none() | st.lists(CONTAINER, max_size=2), "hostname": st.just("h"), "volumes": st.none()},
)
ROLES = ("master", "worker", "head", "launcher", "ps")


@given(TEMPLATE, st.sampled_from(ROLES), st.integers(0, 2), st.sets(st.sampled_from(list(BUILT_IN))))
def test_plugins_only_add_to_what_users_wrote(spec, role, index, names):
    switches = {name: [f"--{flag}" for flag, value in BUILT_IN[name].items() if isinstance(value, bool)] for name in names}
    rows = [task(name, 3, template={"spec": spec}) for name in ROLES]
    owner = job(*rows, plugins=switches)
    number = ROLES.index(role)
    before = pods.build(owner, owner.spec.tasks[number], index)
    after = registry.adapted(registry.plugins_of(owner), owner, owner.spec.tasks[number], index, before)
    assert before == pods.build(owner, owner.spec.tasks[number], index)
    for field in ("containers", "initContainers"):
        old, new = before["spec"].get(field) or [], after["spec"].get(field) or []
        assert [one["name"] for one in new[: len(old)]] == [one["name"] for one in old]
        for one, other in zip(old, new, strict=False):
            for part in ("env", "ports", "volumeMounts"):
                given_items, items = one.get(part) or [], other.get(part) or []
                assert items[: len(given_items)] == given_items
            numbers = [port["containerPort"] for port in (other.get("ports") or [])[len(one.get("ports") or []) :]]
            assert len(set(numbers)) == len(numbers)


def test_hcclrank_annotation_takes_the_rank_that_pytorch_set():
    owner = job(task("master", 2), task("worker", 2), plugins={"hcclrank": [], "pytorch": []})
    made = registry.adapted(registry.plugins_of(owner), owner, owner.spec.tasks[1], 1, pods.build(owner, owner.spec.tasks[1], 1))
    assert made["metadata"]["annotations"]["hccl/rankIndex"] == "2"


def test_missing_plugin_raises_an_error_with_its_name_and_has_a_controlled_resources_entry():
    owner = job(plugins={"nobody": []})
    with pytest.raises(PluginError, match=r"^failed to get plugin nobody$"):
        registry.plugins_of(owner)
    assert registry.marks_of(owner) == {"plugin-nobody": "nobody"}


class Stamp(JobPlugin):
    """A plugin of somebody else."""

    name = "stamp"
    mark = False

    def pod(self, job, task, index, manifest):
        annotations = {**manifest["metadata"]["annotations"], "stamp": ",".join(self.arguments)}
        return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


class Broken(JobPlugin):
    """A plugin that fails at every turn."""

    name = "broken"

    def objects(self, job):
        return [job.metadata.annotations["nothing"]]

    def pod(self, job, task, index, manifest):
        return manifest["nothing"]


class Fussy(JobPlugin):
    name = "fussy"

    def __init__(self, arguments):
        raise ValueError("not these")


@pytest.fixture
def installed(monkeypatch):
    names = ("stamp", "broken", "fussy", "gone")
    points = [metadata.EntryPoint(name, f"{__name__}:{name.title()}", ENTRY_POINTS) for name in names]
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
    registry.known.cache_clear()
    yield
    registry.known.cache_clear()


def test_third_party_plugin_is_loaded_from_an_entry_point(installed):
    owner = job(plugins={"stamp": ["x", "y"], "env": []})
    plugins = registry.plugins_of(owner)
    assert ([plugin.name for plugin in plugins], registry.marks_of(owner)) == (["env", "stamp"], {"plugin-env": "env"})
    made = registry.adapted(plugins, owner, owner.spec.tasks[0], 0, pods.build(owner, owner.spec.tasks[0], 0))
    assert made["metadata"]["annotations"]["stamp"] == "x,y"


def test_exception_in_a_third_party_plugin_becomes_a_plugin_error_with_its_name(installed):
    owner = job(plugins={"broken": []})
    (plugin,) = registry.plugins_of(owner)
    with pytest.raises(PluginError, match=r"^plugin broken failed: KeyError: 'nothing'$"), registry.translated(plugin.name):
        plugin.objects(owner)
    with pytest.raises(PluginError, match=r"^plugin broken failed: KeyError: 'nothing'$"):
        registry.adapted([plugin], owner, owner.spec.tasks[0], 0, pods.build(owner, owner.spec.tasks[0], 0))
    with pytest.raises(PluginError, match=r"^plugin fussy failed: ValueError: not these$"):
        registry.plugins_of(job(plugins={"fussy": []}))


def test_object_body_overrides_values_generated_at_creation():
    item = PluginObject(SECRETS, "s", {"data": {"a": "1"}}, once=lambda: {"type": "t", "data": {"a": "0", "b": "2"}})
    assert registry.body_of(item) == {"type": "t", "data": {"a": "1", "b": "2"}}
    assert registry.body_of(PluginObject(SECRETS, "s", {"data": {}})) == {"data": {}}


def test_object_whose_generation_fails_raises_an_error_with_its_name():
    with pytest.raises(PluginError, match=r"^Secret s cannot be made: KeyError: 'nothing'$"):
        registry.body_of(PluginObject(SECRETS, "s", {}, once=lambda: {}["nothing"]))


def test_plugin_that_cannot_be_loaded_is_not_listed(installed):
    assert "gone" not in registry.known()
    assert set(BUILT_IN) < set(registry.known())
