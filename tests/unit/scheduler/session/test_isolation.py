"""One object never stops the others: absurd amounts, nonsense of every kind, and objects that make deciding itself fail."""

import contextlib

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler import registry
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.cycle import find_culprit
from pyroclast_scheduler.session.extension_points import Extensions
from tests.counts import examples
from tests.scenarios import objects
from tests.unit.scheduler.deciding import configured, decided

CONFIGURATION = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


def cycle(cache, text=CONFIGURATION, plugins=None, snapshot=None):
    _, binds = decided(snapshot or cache, configured(text, plugins), plugins=plugins)
    return {cache.tasks[uid].name: node for uid, node in binds.items()}


def filled():
    """A cluster with a job that fits."""
    cache = Cache()
    cache.queue_changed(None, objects.queue(["q"]))
    for i in range(2):
        cache.node_changed(None, objects.node([f"n{i}", 4, "8Gi"]))
    cache.group_changed(None, objects.pod_group(["good", "q", 2]))
    for i in range(2):
        cache.pod_changed(None, objects.pod([f"good-p-{i}", "good", "-", 1, "1Gi"]))
    return cache


def test_a_podgroup_with_an_overflowing_request_sum_does_not_block_other_jobs():
    cache = filled()
    cache.group_changed(None, objects.pod_group(["huge", "q", 9]))
    for i in range(9):
        cache.pod_changed(None, objects.pod([f"huge-p-{i}", "huge", "-", 1, "1Ei"]))
    assert set(cycle(cache)) == {"good-p-0", "good-p-1"}


@pytest.mark.parametrize("weight", [-1, -4, 0])
def test_a_queue_of_zero_or_negative_weight_does_not_block_jobs_of_other_queues(weight):
    cache = filled()
    cache.queue_changed(None, objects.queue(["odd", {"weight": weight}]))
    cache.group_changed(None, objects.pod_group(["g", "odd", 1, {"phase": "Inqueue"}]))
    cache.pod_changed(None, objects.pod(["other", "g", "-", 1, "1Gi"]))
    assert {"good-p-0", "good-p-1"} <= set(cycle(cache))


def test_an_overflowing_request_sum_of_a_queue_does_not_block_its_other_jobs():
    cache = filled()
    for i in range(64):
        cache.group_changed(None, objects.pod_group([f"huge{i}", "q", 1]))
        cache.pod_changed(None, objects.pod([f"huge{i}-p-0", f"huge{i}", "-", 1, "1Ei"]))
    assert set(cycle(cache)) == {"good-p-0", "good-p-1"}


def test_a_node_with_an_overflowing_sum_of_foreign_pods_does_not_appear_empty():
    cache = filled()
    for i in range(40):
        cache.pod_changed(None, objects.pod([f"forced{i}", "", "n0", 1, "1Ei"]))
    assert set(cycle(cache).values()) == {"n1"}
    for i in range(40):
        cache.pod_changed(objects.pod([f"forced{i}", "", "n0", 1, "1Ei"]), None)
    assert (cache.nodes.columns.used == 0).all()


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "many", "1e400"])
def test_an_invalid_oversubscription_annotation_is_ignored_and_reported_until_corrected(text):
    cache = filled()
    cache.node_changed(None, objects.node(["n2", 4, "8Gi", {"annotations": {"volcano.sh/oversubscription-cpu": text}}]))
    snapshot = cache.snapshot()
    row = snapshot.rows["n2"]
    assert snapshot.is_ready[row]
    assert snapshot.columns.allocatable[0, row] == 4000
    (fault,) = cache.faults()
    assert fault.name == "n2"
    assert "volcano.sh/oversubscription-cpu" in fault.reason
    cache.node_changed(None, objects.node(["n2", 4, "8Gi", {"annotations": {"volcano.sh/oversubscription-cpu": "500"}}]))
    assert not cache.faults()
    assert cache.snapshot().columns.allocatable[0, row] == 4500


class Picky:
    """A plugin that cannot deal with one job, queue or node."""

    def __init__(self, arguments):
        del arguments

    def open(self, session):
        for name in session.queues:
            assert not name.startswith("bad")
        for name, is_ready in zip(session.names, session.nodes.usable, strict=True):
            assert not (is_ready and name.startswith("bad"))

        def order(job):
            if job.facts.name.startswith("bad"):
                raise KeyError(job.facts.name)
            return 0

        return Extensions(job_order=order)


PICKY = "actions: allocate\ntiers: [{plugins: [{name: picky}, {name: gang}, {name: predicates}]}]"


@pytest.mark.parametrize("kind", ["podgroup", "queue", "node"])
def test_an_object_that_makes_a_session_fail_is_found_and_excluded_until_it_changes(kind):
    cache = filled()
    queue, node = objects.queue(["bad"]), objects.node(["bad", 4, "8Gi"])
    plugins = dict(registry.plugins()) | {"picky": Picky}
    if kind == "podgroup":
        for name in ("a", "bad", "c"):
            cache.group_changed(None, objects.pod_group([name, "q", 1]))
            cache.pod_changed(None, objects.pod([f"{name}-p-0", name, "-", 1, "1Gi"]))
    elif kind == "queue":
        cache.queue_changed(None, queue)
    else:
        cache.node_changed(None, node)

    def fails(snapshot):
        try:
            cycle(cache, PICKY, plugins, snapshot)
        except (AssertionError, KeyError):
            return True
        return False

    assert fails(cache.snapshot())
    culprit = find_culprit(cache.snapshot(), fails)
    assert culprit is not None
    assert (culprit.kind, culprit.key.removeprefix("t/")) == (kind, "bad")
    cache.leave_out(culprit.kind, culprit.key, "it fails")
    assert f"{kind} {culprit.key}" in cache.problems
    assert {"good-p-0", "good-p-1"} <= set(cycle(cache, PICKY, plugins))
    if kind == "podgroup":
        cache.pod_changed(None, objects.pod(["bad-p-1", "bad", "-", 1, "1Gi"]))
    elif kind == "queue":
        cache.queue_changed(queue, objects.queue(["bad", {"weight": 2}]))
    else:
        cache.node_changed(node, objects.node(["bad", 5, "8Gi"]))
    assert fails(cache.snapshot())
    assert not cache.problems


@pytest.mark.parametrize("always", [True, False])
def test_a_failure_independent_of_objects_or_that_does_not_come_again_has_no_culprit(always):
    assert find_culprit(filled().snapshot(), lambda _: always) is None


def test_an_object_deleted_during_the_culprit_search_is_not_excluded():
    cache = filled()
    cache.group_changed(objects.pod_group(["good", "q", 2]), None)
    cache.leave_out("podgroup", "t/good", "it fails")
    assert not cache.problems


AMOUNTS = st.sampled_from(["0", "1", "1Ei", "7Ei", "9E", "-1", "1e30", "1e-30", "", "x", "0.0001", "1152921504606846976", 3])
NAMES = st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "x/gpu", "hugepages-2Mi", "storage", "", "count/pods"])
RESOURCES = st.dictionaries(NAMES, AMOUNTS, max_size=4)
TEXT = st.one_of(
    st.sampled_from(["", "true", "nan", "1e999", "-5", "99999999999999999999", "a/b", "☃", "/"]), st.text(max_size=4)
)
ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
NAMES_OF_VOLCANO = ("preemptable", "task-priority", "task-spec", "oversubscription-cpu", "sla-waiting-time")
KEYS = st.sampled_from([*(f"volcano.sh/{name}" for name in NAMES_OF_VOLCANO), "scheduling.k8s.io/group-name"])
META = st.fixed_dictionaries(
    {"labels": st.dictionaries(KEYS, TEXT, max_size=2), "annotations": st.dictionaries(KEYS, TEXT, max_size=3)}
)
TERM = st.fixed_dictionaries({}, optional={"topologyKey": TEXT, "labelSelector": ANY, "namespaces": ANY, "weight": ANY})
AFFINITY = st.dictionaries(
    st.sampled_from(["nodeAffinity", "podAffinity", "podAntiAffinity"]),
    st.one_of(
        ANY,
        st.dictionaries(
            st.sampled_from(
                ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
            ),
            st.one_of(ANY, st.lists(TERM, max_size=2)),
        ),
    ),
)
SPREAD = st.fixed_dictionaries({"topologyKey": TEXT}, optional={"maxSkew": ANY})
POD = st.fixed_dictionaries(
    {"requests": RESOURCES},
    optional={
        "affinity": AFFINITY,
        "priority": st.integers(-(2**31), 2**31 - 1),
        "overhead": RESOURCES,
        "topologySpreadConstraints": st.lists(SPREAD, max_size=2),
        "nodeSelector": st.dictionaries(TEXT, TEXT, max_size=1),
        "nodeName": st.sampled_from(["", "n0", "n9"]),
        "preemptionPolicy": TEXT,
    },
)


def offer(tell, body, kind):
    """Tell the cache of an object, if it decodes: the informer leaves out what does not."""
    with contextlib.suppress(msgspec.ValidationError):
        tell(None, msgspec.convert(body, kind, strict=False))


@settings(max_examples=examples(60), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data())
def test_random_invalid_objects_never_keep_a_valid_job_from_being_bound(data):
    cache = filled()
    for i in range(data.draw(st.integers(0, 2))):
        body = {
            "metadata": {"name": f"odd-{i}", "uid": f"odd-{i}", **data.draw(META)},
            "status": {"allocatable": data.draw(RESOURCES)},
        }
        offer(cache.node_changed, body, records.Node)
    for i in range(data.draw(st.integers(0, 2))):
        spec = data.draw(
            st.fixed_dictionaries(
                {}, optional={"weight": st.integers(-5, 2**31), "capability": RESOURCES, "deserved": RESOURCES, "parent": TEXT}
            )
        )
        offer(cache.queue_changed, {"metadata": {"name": f"odd{i}", "uid": f"odd{i}"}, "spec": spec}, records.Queue)
    for i in range(data.draw(st.integers(0, 3))):
        spec = data.draw(
            st.fixed_dictionaries(
                {"minMember": st.integers(-(2**31), 2**31 - 1), "queue": st.sampled_from(["q", "odd0", "", "nowhere"])},
                optional={"minResources": RESOURCES, "minTaskMember": st.dictionaries(TEXT, st.integers(-5, 2**31), max_size=2)},
            )
        )
        phase = data.draw(st.sampled_from(["Pending", "Inqueue", "Running", "Unknown"]))
        metadata = {"namespace": "t", "name": f"odd-{i}", "uid": f"odd-{i}", **data.draw(META)}
        offer(cache.group_changed, {"metadata": metadata, "spec": spec, "status": {"phase": phase}}, records.PodGroup)
        for j in range(data.draw(st.integers(0, 3))):
            drawn = data.draw(POD)
            pod = {key: value for key, value in drawn.items() if key != "requests"}
            pod |= {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": drawn["requests"]}}]}
            meta = data.draw(META)
            meta["annotations"].setdefault("scheduling.k8s.io/group-name", f"odd-{i}")
            metadata = {"namespace": "t", "name": f"odd-{i}-{j}", "uid": f"odd-{i}-{j}", **meta}
            offer(cache.pod_changed, {"metadata": metadata, "spec": pod}, records.Pod)
    decide(cache)


def decide(cache):
    """Run cycles as the service does: what makes one fail is left out, and the next decides the rest."""
    for _ in range(20):
        try:
            found = cycle(cache)
        except Exception:  # noqa: BLE001 - any error of any object
            culprit = find_culprit(cache.snapshot(), lambda snapshot: fails(cache, snapshot))
            assert culprit is not None
            assert not culprit.key.startswith("t/good")
            cache.leave_out(culprit.kind, culprit.key, "it fails")
            cache.stale()
            continue
        assert {"good-p-0", "good-p-1"} <= set(found)
        return
    raise AssertionError("no cycle ended well")


def fails(cache, snapshot):
    try:
        cycle(cache, snapshot=snapshot)
    except Exception:  # noqa: BLE001 - that is the question
        return True
    return False


def test_a_gang_is_incomplete_until_its_pod_with_a_refused_bind_is_bound():
    cache = filled()
    cycle(cache)
    for i in range(2):
        assert cache.pods.assume(f"t-good-p-{i}", f"n{i}") is None
    bound = objects.pod(["good-p-0", "good", "n0", 1, "1Gi"])
    cache.pod_changed(
        objects.pod(["good-p-0", "good", "-", 1, "1Gi"]), msgspec.structs.replace(bound, status=records.PodStatus())
    )
    cache.pods.forget("t-good-p-1", is_refused=True)
    assert incomplete(cache) == ["t/good"]
    cache.pods.release("t-good-p-1")
    cache.pods.assume("t-good-p-1", "n1")  # the next try is under way
    assert incomplete(cache) == ["t/good"]
    cache.pod_changed(None, objects.pod(["good-p-1", "good", "n1", 1, "1Gi"]))
    assert incomplete(cache) == []


def incomplete(cache):
    """What a cycle that may not place anything says."""
    text = CONFIGURATION.replace("enqueue, allocate, backfill, preempt, reclaim", "enqueue")
    return decided(cache, configured(text))[0].incomplete


def left_out(cache):
    cache.leave_out("podgroup", "t/good", "scheduling failed because of it")
    return cache


def periods_until_seen(cache, at_most):
    for period in range(1, at_most + 1):
        cache.recheck()
        if "t/good" in cache.snapshot().all_jobs:
            return period
    return None


def test_an_excluded_job_is_retried_with_doubling_pauses_up_to_512_periods():
    cache = filled()
    assert "it is tried again in 4 schedule periods" in left_out(cache).problems["podgroup t/good"]
    pauses = [periods_until_seen(cache, 600)]
    for _ in range(8):
        left_out(cache)
        pauses.append(periods_until_seen(cache, 600))
    assert pauses == [4, 8, 16, 32, 64, 128, 256, 512, 512]


def test_the_pause_of_an_excluded_job_resets_after_a_time_without_failures():
    cache = left_out(filled())
    assert periods_until_seen(cache, 4) == 4
    for _ in range(20):
        cache.recheck()
    assert periods_until_seen(left_out(cache), 8) == 4


def test_try_left_out_again_returns_an_excluded_job_to_the_snapshot_at_once():
    cache = left_out(filled())
    cache.try_left_out_again()
    assert "t/good" in cache.snapshot().all_jobs
    assert not cache.problems


def test_the_retry_state_of_an_excluded_job_is_dropped_when_it_is_deleted():
    cache = left_out(filled())
    cache.group_changed(objects.pod_group(["good", "q", 2]), None)
    for uid in list(cache.tasks):
        cache.pod_changed(cache.tasks[uid].pod, None)
    cache.snapshot()
    cache.recheck()
    assert not cache.jobs._retries
