"""HyperNodes: whom they count, and what the sources find."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.records import HyperNode
from pyroclast.lifecycle.hypernodes import configuration, labels
from pyroclast.lifecycle.hypernodes.configuration import KEY, ConfigurationError, read_sources
from pyroclast.lifecycle.hypernodes.discovered import Found, changes, depends_on_nodes, manifest, node_count

NODES = {f"n{number}": {"rack": str(number % 2), "row": "r", "kubernetes.io/hostname": f"n{number}"} for number in range(4)}


def hyper_node(*selectors, name="h", **meta):
    members = [{"type": "Node", "selector": selector} for selector in selectors]
    return msgspec.convert({"metadata": {"name": name, **meta}, "spec": {"tier": 1, "members": members}}, HyperNode)


COUNTS = {
    "exact names, whether or not they exist": ([{"exactMatch": {"name": "n0"}}, {"exactMatch": {"name": "x"}}], 2),
    "each once": ([{"exactMatch": {"name": "n0"}}, {"regexMatch": {"pattern": "n[01]"}}], 2),
    "a pattern anywhere in the name": ([{"regexMatch": {"pattern": "[12]$"}}], 2),
    "a broken pattern": ([{"regexMatch": {"pattern": "("}}], 0),
    "labels": ([{"labelMatch": {"matchLabels": {"rack": "1"}}}], 2),
    "expressions": ([{"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["1"]}]}}], 2),
    "an empty selector": ([{"labelMatch": {}}], 0),
    "an invalid selector": ([{"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "Is"}]}}], 0),
    "no selector": ([None], 0),
}


@pytest.mark.parametrize(("selectors", "want"), COUNTS.values(), ids=COUNTS.keys())
def test_hypernode_counts_each_node_that_its_selectors_match_once(selectors, want):
    assert node_count(hyper_node(*selectors), NODES) == want


def test_hypernode_depends_on_nodes_with_a_pattern_or_labels_but_not_with_an_exact_name():
    assert not depends_on_nodes(hyper_node({"exactMatch": {"name": "n0"}}))
    assert depends_on_nodes(hyper_node({"regexMatch": {"pattern": "n"}}))
    assert depends_on_nodes(hyper_node({"labelMatch": {"matchLabels": {"rack": "1"}}}))


def types(*tiers, name="Net_1"):
    return labels.read_types({"networkTopologyTypes": {name: [{"nodeLabel": tier} for tier in tiers]}})


def test_topology_type_lists_its_labels_from_the_node_upwards_and_is_ignored_if_invalid():
    (found,) = types("row", "rack", "kubernetes.io/hostname")
    assert (found.labels, found.written) == (("rack", "row"), "net-1")
    assert types("row", "row", "rack") == ()
    assert types("row", "rack", name="n" * 21) == ()
    assert labels.read_types({"networkTopologyTypes": ["no"]}) == ()


def test_node_labels_become_hypernodes_with_one_tier_per_label():
    found = labels.discover(types("row", "rack", "kubernetes.io/hostname"), NODES, [])
    lower, upper = found[:2], found[2]
    assert [(each.tier, each.members, each.labels, each.tier_name) for each in lower] == [
        (1, ("n0", "n2"), {"rack": "0"}, "rack"),
        (1, ("n1", "n3"), {"rack": "1"}, "rack"),
    ]
    assert (upper.tier, upper.member_type, upper.labels) == (2, "HyperNode", {"row": "r"})
    assert upper.members == tuple(sorted(each.name for each in lower))
    assert all(each.name.startswith(f"hypernode-net-1-tier{each.tier}-") and len(each.name) == 27 for each in found)
    assert labels.discover(types("row", "rack", "kubernetes.io/hostname"), NODES, []) == found


def test_node_without_a_tier_label_is_in_no_hypernode_of_that_tier_or_above():
    nodes = {"a": {"row": "r"}, "b": {"rack": "1"}}
    (found,) = labels.discover(types("row", "rack", "host"), nodes, [])
    assert found.members == ("b",)


def test_discovery_reuses_the_names_of_existing_hypernodes():
    there = hyper_node(name="hypernode-net-1-tier1-zzzzz", labels={labels_key: "label", "rack": "0"})
    found = labels.discover(types("rack", "host"), NODES, [there])
    assert found[0].name == "hypernode-net-1-tier1-zzzzz"
    assert changes(found, [there], "label").patch


labels_key = "volcano.sh/network-topology-source"


def found_as(each, source="label"):
    return msgspec.convert(manifest(each, source), HyperNode)


def test_unchanged_hypernodes_are_not_patched_and_undiscovered_ones_are_deleted():
    same, gone, other = Found("a", 1, ("n0",)), Found("b", 1, ("n1",)), Found("c", 1, ("n2",))
    there = [found_as(same), found_as(gone), found_as(other, "ufm")]
    todo = changes([same, Found("c", 1, ("n2",)), Found("d", 1, ("n3",))], there, "label")
    assert [body["metadata"]["name"] for body in todo.create] == ["d"]
    assert (todo.patch, [each.metadata.name for each in todo.delete], todo.foreign) == ((), ["b"], ("c",))


def test_hypernode_patch_contains_only_fields_that_differ():
    todo = changes([Found("a", 1, ("n0", "n1"))], [found_as(Found("a", 1, ("n0",), tier_name="t"))], "label")
    ((_, patch),) = todo.patch
    assert patch["spec"]["tierName"] is None
    assert [member["selector"]["exactMatch"]["name"] for member in patch["spec"]["members"]] == ["n0", "n1"]
    assert "metadata" not in patch


def port(node, leaf, description="Computer IB Port"):
    return {
        "description": description,
        "tier": 1,
        "system_name": node,
        "node_description": f"{node} HCA-1",
        "peer_node_name": leaf,
    }


def test_leaf_switches_that_share_nodes_become_one_hypernode():
    given = [port("a", "l2"), port("b", "l2"), port("b", "l1"), port("c", "l3"), port("x", "l4", "Switch Port")]
    assert configuration.discover(configuration.read_ports(json.dumps(given).encode())) == [
        Found("leaf-hn-0", 1, ("a", "b")),
        Found("leaf-hn-1", 1, ("c",)),
        Found("spine-hn", 2, ("leaf-hn-0", "leaf-hn-1"), "HyperNode"),
    ]
    assert configuration.discover([]) == []


def test_ufm_ports_without_peer_system_or_description_are_ignored():
    given = [port("a", "l"), port("b", None), port(None, "l"), port("c", "l", None)]
    assert configuration.discover(configuration.read_ports(json.dumps(given).encode()))[0] == Found("leaf-hn-0", 1, ("a",))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=30))
def test_each_node_is_in_exactly_one_leaf_hypernode_together_with_all_nodes_of_its_switch(pairs):
    found = configuration.discover(
        [configuration.Port(description="Computer", system_name=f"n{node}", peer_node_name=f"l{leaf}") for node, leaf in pairs]
    )
    leaves = [set(each.members) for each in found if each.tier == 1]
    assert sorted(name for leaf in leaves for name in leaf) == sorted({f"n{node}" for node, _ in pairs})
    for switch in range(6):
        assert len([leaf for leaf in leaves if leaf & {f"n{node}" for node, on in pairs if on == switch}]) <= 1


@pytest.mark.parametrize("body", [b"no", b"{}", b'[{"system_name": 1}]'])
def test_ufm_response_that_is_no_list_of_ports_raises_value_error(body):
    with pytest.raises(ValueError, match="the answer of UFM is no list of ports"):
        configuration.read_ports(body)


CONFIGURATION = """
networkTopologyDiscovery:
- source: ufm
  enabled: true
  interval: 10m
  credentials: {secretRef: {name: s, namespace: n}}
  config: {endpoint: https://ufm, insecureSkipVerify: true}
- source: label
  enabled: true
  interval: 0s
  config: {networkTopologyTypes: {a: [{nodeLabel: x}, {nodeLabel: y}]}}
- source: label-to-come
  enabled: false
"""


def test_topology_configuration_returns_enabled_sources_with_interval_and_secret():
    sources = read_sources({KEY: CONFIGURATION})
    assert list(sources) == ["ufm", "label"]
    assert (sources["ufm"].interval, sources["ufm"].secret, sources["label"].interval) == (600.0, ("n", "s"), 3600.0)
    assert read_sources(None) == read_sources({KEY: ""}) == {}


ONE = "networkTopologyDiscovery"


@pytest.mark.parametrize(
    ("data", "want"),
    [
        ({}, "the ConfigMap has no key volcano-controller.conf"),
        ({KEY: "a: ["}, "volcano-controller.conf is not YAML"),
        ({KEY: "networkTopologyDiscovery: 1"}, "must be a list of sources"),
        ({KEY: "[]"}, "must be a list of sources"),
        ({KEY: "networkTopologyDiscovery: [{source: snmp, enabled: true}]"}, "unsupported discoverer type: snmp"),
        ({KEY: "networkTopologyDiscovery: [{source: ufm, enabled: true}]"}, "endpoint: Required value"),
        ({KEY: "networkTopologyDiscovery: [{source: label, enabled: true, interval: soon}]"}, "soon is not a duration"),
        ({KEY: f"{ONE}: [{{source: ufm, enabled: true, config: {{endpoint: u}}, credentials: x}}]"}, "secretRef must have name"),
        (
            {KEY: f"{ONE}: [{{source: ufm, enabled: true, config: {{endpoint: u}}, credentials: {{secretRef: x}}}}]"},
            "secretRef must have name",
        ),
        ({KEY: f"{ONE}: [{{source: label, enabled: true, config: {{networkTopologyTypes: {{a: 1}}}}}}]"}, "must name lists"),
    ],
)
def test_invalid_topology_configuration_raises_configuration_error_with_the_reason(data, want):
    with pytest.raises(ConfigurationError, match=want):
        read_sources(data)
