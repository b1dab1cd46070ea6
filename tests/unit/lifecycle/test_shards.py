"""Which nodes each of several schedulers gets, by flags or by a ConfigMap."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.records import Node, NodeShard, Pod
from pyroclast.lifecycle.shards import DEFAULT, KEY, NodeLoad, ShardingError, choose, from_flags, is_due, load_of, read, status
from tests.unit.lifecycle.builders import decode

WARM = {"node.volcano.sh/warmup": "true"}


def flags(*texts):
    return from_flags(texts, period=60, on_events=True)


def pod(cpu, phase="Running", **annotations):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return decode(
        {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}, "status": {"phase": phase}}, Pod
    )


def test_node_load_is_the_cpu_requested_by_active_pods_over_the_capacity():
    node = decode({"metadata": {"name": "n", "labels": WARM}, "status": {"capacity": {"cpu": "4"}}}, Node)
    mirror = {"kubernetes.io/config.mirror": "x"}
    assert load_of(node, [pod("1"), pod("500m"), pod("2", "Succeeded"), pod("2", **mirror)]) == NodeLoad("n", 0.375, WARM)
    assert load_of(node, [pod("9"), pod("no number")]).rate == 1.0
    assert load_of(decode({"metadata": {"name": "n"}}, Node), [pod("1")]).rate == 0.0


def test_default_schedulers_choose_the_nodes_of_their_load_range_busiest_first():
    nodes = [NodeLoad(f"n{number}", number / 10) for number in range(11)]
    chosen = choose(flags(*DEFAULT).shares, nodes)
    assert chosen["volcano"] == ("n6", "n5", "n4", "n3", "n2", "n1", "n0")
    assert chosen["agent-scheduler"] == ("n10", "n9", "n8", "n7")


def test_warmup_nodes_are_chosen_first_up_to_the_node_limit():
    nodes = [NodeLoad("a", 0.9), NodeLoad("b", 0.8, WARM), NodeLoad("c", 0.7)]
    assert choose(flags("s:agent:0.5:1.0:true:0:2").shares, nodes) == {"s": ("b", "a")}


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1), max_size=80), st.integers(0, 90), st.integers(0, 90))
def test_no_node_is_assigned_twice_and_no_node_limit_is_exceeded(rates, first, second):
    shares = flags(f"a:x:0.0:0.8:false:0:{first}", f"b:y:0.2:1.0:true:0:{second}").shares
    chosen = choose(shares, [NodeLoad(f"n{number}", rate) for number, rate in enumerate(rates)])
    assert len(chosen["a"]) <= first
    assert len(chosen["b"]) <= second
    assert not set(chosen["a"]) & set(chosen["b"])


def shard(*desired, use=(), add=(), remove=()):
    told = {"nodesInUse": list(use), "nodesToAdd": list(add), "nodesToRemove": list(remove)}
    return decode({"metadata": {"name": "s"}, "spec": {"nodesDesired": list(desired)}, "status": told}, NodeShard)


def test_shard_write_is_due_only_when_a_tenth_of_the_nodes_or_their_number_changes():
    many = [f"n{number}" for number in range(40)]
    assert not is_due(shard(*many), [*many[3:], "x", "y", "z"])
    assert is_due(shard(*many), [*many[4:], "w", "x", "y", "z"])
    assert is_due(shard(*many), many[1:])
    assert is_due(shard("a"), ["b"])
    assert not is_due(shard("a", "b"), ["b", "a"])


def test_shard_status_lists_the_nodes_to_add_and_to_remove():
    assert status(shard(use=["a", "b"]), ["b", "c"]) == {"nodesToAdd": ["c"], "nodesToRemove": ["a"]}
    assert status(shard(use=["a", "b"], add=["c"], remove=["a"]), ["b", "c"]) == {}


def test_sharding_configmap_overrides_the_flags():
    text = """
shardSyncPeriod: 30s
enableNodeEventTrigger: false
schedulerConfigs:
- name: a
  policies: [{name: allocation-rate, weight: 2, arguments: {minCPUUtil: 0.1}}, {name: node-limit, arguments: {maxNodes: 3}}]
- {name: b, cpuUtilizationMin: 0.2, cpuUtilizationMax: 0.9, preferWarmupNodes: true, minNodes: 1, maxNodes: 5}
"""
    sharding = read({KEY: text}, flags())
    assert (sharding.period, sharding.on_events, [share.name for share in sharding.shares]) == (30.0, False, ["a", "b"])
    assert [policy.name for policy in sharding.shares[1].policies] == ["allocation-rate", "warmup", "node-limit"]
    assert read({KEY: ""}, flags()) == read({}, flags()) == flags()
    assert from_flags((), period=0, on_events=True).period == 120.0


def one(settings, name="a"):
    return f"schedulerConfigs: [{{name: '{name}', {settings}}}]"


WRONG = {
    "no YAML": ("a: [", "is not YAML"),
    "no scheduler": ("schedulerConfigs: []", "at least one scheduler"),
    "a name twice": ("schedulerConfigs: [{name: a}, {name: b}, {name: a}]", "scheduler a is there twice"),
    "no name": (one("type: t", name=""), "must have a name"),
    "a range": (one("cpuUtilizationMin: 0.9, cpuUtilizationMax: 0.1"), "utilisation must be within 0 and 1"),
    "more than all": (one("cpuUtilizationMax: 1.5"), "utilisation must be within 0 and 1"),
    "numbers of nodes": (one("minNodes: 3, maxNodes: 2"), "minNodes must not be negative"),
    "a word": (one("minNodes: few"), "must be numbers"),
    "a weight": (one("policies: [{name: warmup, weight: -1}]"), "weight of warmup must not be negative"),
    "no weight": (one("policies: [{name: warmup, weight: .nan}]"), "weight of warmup must not be negative"),
    "no end of nodes": (one("policies: [{name: node-limit, arguments: {maxNodes: .inf}}]"), "nor that above 2147483647"),
    "no end of nodes in the older form": (one("maxNodes: .inf"), "must be numbers"),
    "no such policy": (one("policies: [{name: luck}]"), "there is no policy luck"),
    "misplaced": (one("policies: [{name: warmup, arguments: {maxNodes: 1}}]"), "arguments of node-limit alone"),
    "a period": ("shardSyncPeriod: often\n" + one("type: t"), "often is not a duration"),
}


@pytest.mark.parametrize(("text", "want"), WRONG.values(), ids=WRONG.keys())
def test_invalid_sharding_configuration_raises_an_error_with_the_reason(text, want):
    with pytest.raises(ShardingError, match=want):
        read({KEY: text}, flags())


@pytest.mark.parametrize("text", ["a:b", "a:b:x:1:true:1:2", ":b:0:1:true:1:2", "a:b:0:1:true:3:2"])
def test_invalid_scheduler_configs_flag_raises_an_error(text):
    with pytest.raises(ShardingError, match="--scheduler-configs"):
        flags(text)
