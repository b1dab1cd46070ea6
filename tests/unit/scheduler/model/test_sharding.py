"""How several schedulers divide the cluster: the hash ring, by points of the original's rule, and NodeShards."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler.model.sharding import Ring, ShardTable, ring_key, ring_of


def shard(name, desired, used=()):
    return records.NodeShard(
        metadata=records.Meta(name=name),
        spec=records.NodeShardSpec(nodes_desired=tuple(desired)),
        status=records.NodeShardStatus(nodes_in_use=tuple(used)),
    )


def table(*shards, name="me"):
    made = ShardTable(name)
    for each in shards:
        made.changed(None, each)
    return made


@pytest.mark.parametrize(
    ("shards", "want"),
    [
        ([shard("me", "1234"), shard("b", "", "2"), shard("c", "", "34")], "1"),
        ([shard("b", "", "2"), shard("me", "1234")], "134"),
        ([shard("b", "12", "12")], ""),
        ([shard("a", "2"), shard("me", "12")], "1"),
        ([shard("a", "2"), shard("me", "12", "2")], "12"),
        ([shard("z", "2"), shard("me", "12")], "12"),
    ],
    ids=[
        "desired but for what others use",
        "however they come",
        "ours is missing",
        "what nobody uses goes to the first by name",
        "who uses a node keeps it",
        "we are the first",
    ],
)
def test_a_scheduler_owns_the_desired_nodes_of_its_shard_that_no_other_shard_holds(shards, want):
    assert table(*shards).nodes == set(want)


def test_a_scheduler_keeps_its_nodes_after_its_node_shard_is_deleted():
    made = table(shard("me", "12"))
    made.changed(shard("me", "12"), None)
    made.changed(None, shard("b", "", "1"))
    assert made.nodes == set("12")
    assert made.status() == {}
    assert made.claimed() == set("12")


def test_nodes_in_use_lists_a_node_before_it_is_claimed_and_until_its_binds_end():
    made = table(shard("me", "12"))
    assert made.claimed() == set()
    assert made.status() == {"nodesInUse": ["1", "2"], "nodesToAdd": [], "nodesToRemove": []}
    made.changed(None, shard("me", "12", "12"))
    assert made.claimed() == set("12")
    assert made.status() == {}
    made.changed(None, shard("me", "1", "12"))
    assert made.claimed() == set("1")
    assert made.status(busy={"2", "7"}) == {"nodesInUse": ["1", "2"], "nodesToAdd": [], "nodesToRemove": ["2"]}
    assert made.status() == {"nodesInUse": ["1"], "nodesToAdd": [], "nodesToRemove": []}


NODES = st.frozensets(st.sampled_from("12345"))


class World:
    """Three schedulers that see each other's NodeShards late, by one watch each, and write against what they saw."""

    def __init__(self):
        self.now = {name: shard(name, "") for name in "abc"}
        self.versions = dict.fromkeys("abc", 0)
        self.history = []
        self.tables = {name: table(*self.now.values(), name=name) for name in "abc"}
        self.at = dict.fromkeys("abc", 0)
        self.seen = {name: dict.fromkeys("abc", 0) for name in "abc"}

    def store(self, new):
        name = new.metadata.name
        self.versions[name] += 1
        self.now[name] = new
        self.history.append((name, self.versions[name], new))

    def observe(self, who):
        if self.at[who] < len(self.history):
            name, version, new = self.history[self.at[who]]
            self.tables[who].changed(None, new)
            self.seen[who][name] = version
            self.at[who] += 1

    def write(self, who):
        status = self.tables[who].status()
        if status and self.seen[who][who] == self.versions[who]:
            self.store(shard(who, self.now[who].spec.nodes_desired, status["nodesInUse"]))

    def move(self, node, to):
        """As the controller does: first taken away, then given."""
        for name in "abc":
            desired = self.now[name].spec.nodes_desired
            if node in desired and name != to:
                self.store(shard(name, set(desired) - {node}, self.now[name].status.nodes_in_use))
        desired = self.now[to].spec.nodes_desired
        if node not in desired:
            self.store(shard(to, {*desired, node}, self.now[to].status.nodes_in_use))


STEPS = st.one_of(
    st.tuples(st.just("observe"), st.sampled_from("abc"), st.just("")),
    st.tuples(st.just("write"), st.sampled_from("abc"), st.just("")),
    st.tuples(st.just("move"), st.sampled_from("12"), st.sampled_from("abc")),
)


@given(st.lists(STEPS, max_size=60))
def test_no_node_is_used_by_two_schedulers_and_every_desired_node_is_used_in_the_end(steps):
    world = World()
    for step, one, other in steps:
        match step:
            case "observe":
                world.observe(one)
            case "write":
                world.write(one)
            case _:
                world.move(one, other)
        claims = [world.tables[name].claimed() for name in "abc"]
        # a session uses what is claimed and still named by the status that the server has: what was given back is not used
        used = [claim & set(world.now[name].status.nodes_in_use) for claim, name in zip(claims, "abc", strict=True)]
        assert sum(map(len, used)) == len(frozenset.union(*map(frozenset, used)))
    for _ in range(20):
        for name in "abc":
            while world.at[name] < len(world.history):
                world.observe(name)
            world.write(name)
    for name in "abc":
        assert set(world.now[name].status.nodes_in_use) == set(world.now[name].spec.nodes_desired)


RING = Ring("vc-scheduler-1", 3)


@given(st.text(max_size=20))
def test_a_key_is_owned_by_the_first_ring_point_after_its_hash(key):
    points = [(zlib.crc32(f"{k}vc-scheduler-{i}".encode()), f"vc-scheduler-{i}") for i in range(3) for k in range(20)]
    after = [point for point in points if point[0] > zlib.crc32(key.encode())]
    assert RING.owner(key) == min(after or points)[1]


def test_ring_members_divide_all_keys_without_overlap():
    members = [Ring(f"s-{i}", 3) for i in range(3)]
    owned = [{name for name in map(str, range(300)) if member.is_mine(name)} for member in members]
    assert sum(map(len, owned)) == len(set.union(*owned)) == 300
    assert all(len(each) > 30 for each in owned)


def environment(name="s-0", number="2", enable="true"):
    return {"MULTI_SCHEDULER_ENABLE": enable, "SCHEDULER_NUM": number, "SCHEDULER_POD_NAME": name}


def test_ring_members_are_read_from_environment_variables():
    ring = ring_of(environment("my-vc-1"))
    assert ring is not None
    assert (ring.member, ring.index) == ("my-vc-1", 1)
    assert {ring.owner(str(i)) for i in range(50)} == {"my-vc-0", "my-vc-1"}
    assert ring_of({}) is None
    assert ring_of(environment(enable="false")) is None


@pytest.mark.parametrize("number", ["", "many", "0", "-2"])
def test_an_invalid_scheduler_num_counts_as_one(number):
    ring = ring_of(environment(number=number))
    assert ring is not None
    assert ring.is_mine("anything")


@pytest.mark.parametrize("name", ["", "s", "s-x", "s-2"])
def test_a_scheduler_pod_name_outside_the_ring_raises_value_error(name):
    with pytest.raises(ValueError, match="SCHEDULER_POD_NAME"):
        ring_of(environment(name))


OWNER = records.OwnerReference(name="job", kind="Job", uid="u")


@pytest.mark.parametrize(
    ("meta", "want"),
    [
        (records.Meta(name="p", owner_references=(OWNER,)), "job"),
        (records.Meta(name="p"), "p"),
        (records.Meta(name="p", annotations={"scheduling.k8s.io/group-name": "g"}), "g"),
        (records.Meta(name="p", uid="7", annotations={"scheduling.k8s.io/group-name": "podgroup-7"}), "p"),
    ],
    ids=["owner", "itself", "the PodGroup of its user", "a PodGroup made for it"],
)
def test_the_ring_key_is_the_name_of_the_owner_the_podgroup_or_the_pod(meta, want):
    assert ring_key(meta) == want
