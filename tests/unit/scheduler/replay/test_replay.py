"""A snapshot decided again comes to the same end as the session did, on all scenarios and on random clusters."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pyroclast.api.enums import PodGroupPhase
from pyroclast.api.keys import POD_GROUP
from pyroclast.api.types import Key
from pyroclast.lifecycle.gang.groups import GroupStatus
from pyroclast_scheduler import __main__ as program
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.model.reservations import Reservation
from pyroclast_scheduler.replay.capture import taken
from pyroclast_scheduler.replay.decide import ReplayedDecision, decided, restored
from pyroclast_scheduler.replay.state import NotReplayable, encoded, read
from pyroclast_scheduler.session.ports import NodeUsage, Ports, Shard
from pyroclast_scheduler.shell import debug
from tests.counts import ONE_IN, examples
from tests.scenarios import __main__ as scenarios
from tests.scenarios import objects, runner
from tests.unit.scheduler.deciding import committed, one_tier

CASES = sorted((Path(scenarios.__file__).parent / "cases").glob("*.yaml"))


def written(cache, chosen, ports):
    state = taken(cache, chosen, ports)
    return b'{"replay": ' + b"".join(encoded(state)) + b"}"


def live(cache, chosen, ports):
    """What a session decides that looks at what it thinks worth it, which is told of all jobs by another that does so."""
    first = session(cache, chosen, ports)
    cache.jobs.retry(cache.jobs.entries)
    whole = session(cache, chosen, ports)
    assert (whole.binds, whole.evictions, whole.pipelined) == (first.binds, first.evictions, first.pipelined)
    return whole


def session(cache, chosen, ports):
    cache.stale()
    given = {"shard": ports.shard, "period": ports.period, "memory": ports.memory, "usage": ports.usage}
    outcome, commits = committed(cache, chosen, now=ports.now, **given)
    return ReplayedDecision.of(outcome, commits, cache)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_replaying_a_scenario_cycle_gives_the_same_decision_as_the_session(path, monkeypatch):
    cycle, numbers = runner.cycle, itertools.count()

    def both(cache, chosen, seen, *, shard=None, **surroundings):
        plugins = {entry.name for tier in chosen.tiers for entry in tier}
        if not plugins & {"fake", "extender"} and next(numbers) % ONE_IN == 0:
            ports = Ports(objects.NOW, shard=shard, **surroundings)
            body = written(cache, chosen, ports)
            again = decided(read(body))
            assert again == live(cache, chosen, ports)
        cycle(cache, chosen, seen, shard=shard, **surroundings)

    monkeypatch.setattr(runner, "cycle", both)
    differences = {result.name: result.differences for result in scenarios.results([path]) if result.differences}
    assert differences == {}


ACTIONS = "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim"
PLUGINS = ["priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder", "binpack", "sla", "tdm", "pdb"]
CONFIGURATION = one_tier(PLUGINS, ACTIONS)
AMOUNT = st.integers(1, 8)


@st.composite
def clusters(draw):
    """Tables of a scenario, in any order, with pods that run, wait and go."""
    nodes = [[f"n{i}", draw(AMOUNT), f"{draw(AMOUNT)}Gi"] for i in draw(st.permutations(range(draw(st.integers(1, 5)))))]
    queues = [[f"q{i}", {"weight": draw(st.integers(1, 3)), "reclaimable": draw(st.booleans())}] for i in range(2)]
    groups, pods = [], []
    for i in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 4))
        phase = draw(st.sampled_from(["Pending", "Inqueue", "Running"]))
        options = {"phase": phase, "class": draw(st.sampled_from([None, 10, 1000]))}
        groups.append([f"g{i}", f"q{draw(st.integers(0, 1))}", draw(st.integers(1, size)), options])
        for number in range(size):
            node = draw(st.sampled_from(["-", "-", *(row[0] for row in nodes), "gone"]))
            asked = [draw(AMOUNT), f"{draw(AMOUNT)}Gi"]
            pods.append([f"g{i}-{number}", f"g{i}", node, *asked, {"prio": draw(st.sampled_from([1, 10]))}])
    return {"nodes": nodes, "queues": queues, "podgroups": groups, "pods": draw(st.permutations(pods))}


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.sampled_from([None, True, False]))
def test_replaying_cycles_of_random_clusters_gives_the_same_decisions_as_the_sessions(tables, is_hard):
    cache = Cache()
    runner.feed(cache, tables)
    shard = None if is_hard is None else Shard(frozenset({"n0", "n1"}), is_hard)
    seen = runner.Seen()
    for _ in range(3):
        ports = Ports(objects.NOW, shard=shard)
        again = decided(read(written(cache, CONFIGURATION, ports)))
        assert again == live(cache, CONFIGURATION, ports)
        runner.cycle(cache, CONFIGURATION, seen, shard=shard)


def small():
    cache = Cache()
    runner.feed(cache, {"nodes": [["n", 4, "4Gi"]], "queues": [["default", {}]], "podgroups": [["g", "default", 1]]})
    runner.feed(cache, {"pods": [["g-0", "g", "-", 1, "1Gi"]]})
    return cache


def test_a_replay_snapshot_includes_assumed_pods_refused_binds_and_plugin_memory():
    cache = small()
    uid = next(iter(cache.tasks))
    assert cache.pods.assume(uid, "n") is None
    ports = Ports(objects.NOW, period=7, memory={"when": 1.5, "by pod": {"a": {"b": "c"}}})
    state = read(written(cache, CONFIGURATION, ports))
    assert decided(state).binds == {}
    assert restored(state).nodes.columns.used[0, 0] == 1000
    cache.pods.forget(uid, is_refused=True)
    assert decided(read(written(cache, CONFIGURATION, ports))).binds == {}
    cache.pods.release(uid)
    assert decided(read(written(cache, CONFIGURATION, ports))).binds == {"t/g-0": "n"}
    assert state.circumstances.memory == ports.memory
    assert state.circumstances.period == 7


def test_a_replay_snapshot_includes_node_usage_and_reservations():
    class Usage:
        def usage(self):
            return {"n": NodeUsage({"5m": 50.0}, {"5m": 10.0}, 3.0)}

    reservations = {"t/g": Reservation(job="t/g", uid="u", scheduler="volcano", promise=5.0)}
    state = read(written(small(), CONFIGURATION, Ports(1.0, usage=Usage(), reservations=reservations)))
    assert state.circumstances.usage == Usage().usage()
    assert state.circumstances.reservations == reservations


def snapshot(**changes):
    document = json.loads(written(small(), CONFIGURATION, Ports(objects.NOW)))
    document["replay"].update(changes)
    return json.dumps(document).encode()


def with_plugin(name):
    document = json.loads(snapshot())["replay"]["configuration"]
    document["tiers"][0].append({"name": name, "enabled": [], "arguments": {}})
    return snapshot(configuration=document)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"{", "not JSON"),
        (b"[]", "no part named replay"),
        (b'{"jobs": {}}', "no part named replay"),
        (snapshot(form=99), "of form 99"),
        (snapshot(pods=3), "replay: Expected `array`"),
        (snapshot(objects={"Unicorn": [{}]}), "kind Unicorn"),
        (snapshot(queues=[]), "queue default does not exist"),
        (with_plugin("extender"), "plugin extender asks services of others"),
        (with_plugin("mine"), "plugin mine is not installed here"),
    ],
    ids=["no JSON", "a list", "another page", "of a later scheduler", "wrong types", "kind", "torn", "extender", "of others"],
)
def test_a_snapshot_that_cannot_be_replayed_is_refused_with_the_reason(body, want, tmp_path, capsys):
    with pytest.raises(NotReplayable, match=want):
        decided(read(body))
    path = tmp_path / "snapshot.json"
    path.write_bytes(body)
    assert program.main(["replay", str(path)]) == 2
    assert want.replace("`", "") in capsys.readouterr().err.replace("`", "")


def test_a_snapshot_with_plugin_memory_that_cannot_be_serialised_is_refused():
    body = written(small(), CONFIGURATION, Ports(objects.NOW, memory={"mine": object()}))
    with pytest.raises(NotReplayable, match="remember as mine"):
        decided(read(body))


async def test_the_debug_page_shows_task_counts_and_contains_a_replayable_snapshot():
    cache = small()
    kind, body = await debug.page(cache, taken(cache, CONFIGURATION, Ports(objects.NOW)))
    picture = json.loads(body)
    assert kind == "application/json"
    assert picture["jobs"]["t/g"]["tasks"] == {"Pending": 1}
    assert decided(read(body)).binds == {"t/g-0": "n"}


def test_the_replay_command_prints_the_binds_and_exits_with_2_on_wrong_arguments(tmp_path, capsysbinary):
    path = tmp_path / "snapshot.json"
    path.write_bytes(snapshot())
    assert program.main(["replay", str(path)]) == 0
    assert json.loads(capsysbinary.readouterr().out)["binds"] == {"t/g-0": "n"}
    assert program.main(["replay", str(tmp_path / "none.json")]) == 2
    assert program.main(["replay"]) == 2
    assert program.main(["replay", "--help"]) == 0


def test_a_node_that_cannot_be_read_is_replayed_as_such():
    cache = Cache()
    cache.undecodable_nodes = {Key("", "odd"): "spec: Expected `object`, got `int`"}
    job = {"podgroups": [["j", "q", 1, {"phase": "Inqueue"}]], "pods": [["j-0", "j", "-", 9, "1Gi"]]}
    runner.feed(cache, {"nodes": [["n", 8, "8Gi"]], "queues": [["q", {}]], **job})
    body = written(cache, one_tier(["gang", "predicates"]), Ports(objects.NOW))
    (reason,) = decided(read(body)).reasons["t/j"]
    assert reason.endswith("node odd cannot be read as a whole: spec: Expected `object`, got `int`")


def test_a_replay_snapshot_has_the_phase_of_a_group_that_its_pod_describes():
    cache = Cache()
    runner.feed(cache, {"nodes": [["n", 4, "4Gi"]], "queues": [["default", {}]]})
    pod = objects.pod(["g-0", "g", "-", 1, "1Gi"])
    text = '{"spec": {"queue": "default", "minMember": 1}}'
    meta = replace(pod.metadata, labels={POD_GROUP: "none"}, annotations={**pod.metadata.annotations, POD_GROUP: text})
    cache.pod_changed(None, replace(pod, metadata=meta))
    cache.groups.believe("t/g", GroupStatus(phase=PodGroupPhase.INQUEUE))
    state = read(written(cache, CONFIGURATION, Ports(objects.NOW)))
    assert state.groups == ()
    assert restored(state).groups.current("t/g").status.phase is PodGroupPhase.INQUEUE
    assert decided(state).binds == {"t/g-0": "n"}
