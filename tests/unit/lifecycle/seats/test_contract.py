"""The annotations of seats and placements: what is written reads back, and whatever else stands there is refused in words."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import keys, records
from pyroclast.lifecycle.seats.contract import (
    LONGEST,
    MOST_SEATS,
    PodTemplate,
    Seat,
    Seats,
    SeatsError,
    TaskSeats,
    asking,
    encode,
    is_seat,
    parse_placement,
    parse_seats,
    placed,
    pod_of,
    template_of,
)
from pyroclast.lifecycle.seats.eligibility import SeatRefusal, refusal_of_job, refusal_of_pod
from tests.unit.lifecycle.builders import job, task

OURS = ("volcano",)


def pod(**spec):
    meta = {"name": "j-w-3", "namespace": "n", "labels": {"app": "x", keys.TASK_INDEX: "3"}}
    meta["annotations"] = {keys.TASK_SPEC: "w", keys.TASK_INDEX: "3", keys.JOB_VERSION: "2", "other.io/a": "b"}
    meta["annotations"] |= spec.pop("annotations", {})
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}} | spec.pop("container", {})
    return msgspec.convert(
        {"metadata": meta, "spec": {"schedulerName": "volcano", "containers": [container], **spec}}, records.Pod
    )


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        pytest.param({}, None, id="simple"),
        pytest.param({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}], "overhead": {"cpu": "1"}}, None, id="selector"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {}}]}, None, id="plain volumes"),
        pytest.param({"nodeName": "n1"}, SeatRefusal.NODE, id="node"),
        pytest.param({"schedulerName": "default-scheduler"}, SeatRefusal.SCHEDULER, id="scheduler"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, SeatRefusal.GATES, id="gates"),
        pytest.param({"annotations": {keys.QUEUE_ALLOCATION_GATE: "true"}}, SeatRefusal.GATES, id="gate of the queue"),
        pytest.param({"resourceClaims": [{"name": "r"}]}, SeatRefusal.RESOURCE_CLAIMS, id="resource claims"),
        pytest.param({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, SeatRefusal.CLAIMS, id="claim"),
        pytest.param({"volumes": [{"name": "v", "ephemeral": {}}]}, SeatRefusal.CLAIMS, id="ephemeral claim"),
        pytest.param({"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}, SeatRefusal.DEVICES, id="device"),
        pytest.param({"annotations": {keys.NUMA_TOPOLOGY_POLICY: "restricted"}}, SeatRefusal.DEVICES, id="cpus"),
        pytest.param({"affinity": {"podAntiAffinity": {}}}, SeatRefusal.AFFINITY, id="affinity"),
        pytest.param({"topologySpreadConstraints": [{"maxSkew": 1}]}, SeatRefusal.AFFINITY, id="spread"),
        pytest.param({"container": {"ports": [{"hostPort": 80}]}}, SeatRefusal.PORTS, id="port"),
        pytest.param({"hostNetwork": True}, SeatRefusal.PORTS, id="host network"),
    ],
)
def test_refusal_of_pod_returns_the_unsupported_feature_and_none_for_a_simple_pod(spec, way):
    assert refusal_of_pod(pod(**spec), schedulers=OURS) is way


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        pytest.param({}, None, id="simple"),
        pytest.param({"networkTopology": {"mode": "hard"}}, SeatRefusal.TOPOLOGY, id="topology"),
        pytest.param({"volumes": [{"mountPath": "/a", "volumeClaimName": "c"}]}, SeatRefusal.CLAIMS, id="claim"),
        pytest.param({"schedulerName": "other"}, SeatRefusal.SCHEDULER, id="scheduler"),
        pytest.param({"tasks": [task("w", 1, dependsOn={"name": ["m"]})]}, SeatRefusal.DEPENDS_ON, id="depends"),
        pytest.param({"tasks": [task("w", 1, topologyPolicy="best-effort")]}, SeatRefusal.DEVICES, id="cpus"),
        pytest.param({"tasks": [task("w", 4, partitionPolicy={"partitionSize": 2})]}, SeatRefusal.TOPOLOGY, id="partitions"),
    ],
)
def test_refusal_of_job_returns_the_unsupported_feature_or_forwarding_if_it_is_on(spec, way):
    found = job(**{"tasks": [task("w", 1)], "schedulerName": "volcano", **spec})
    assert refusal_of_job(found, schedulers=OURS, forwarding=False) is way
    assert refusal_of_job(found, schedulers=OURS, forwarding=True) is SeatRefusal.FORWARDING


def test_pod_built_from_a_seat_has_the_spec_labels_and_name_of_the_future_pod():
    made = pod(nodeSelector={"a": "b"}, tolerations=[{"key": "t", "tolerationSeconds": 300}])
    seats = Seats(tasks=(TaskSeats(role="w", prefix="j-w-", count=5, pod=template_of(made)),))
    group = records.Meta(name="g", namespace="n", uid="u")
    found = pod_of(group, 1, parse_seats(encode(seats)).tasks[0], 3)
    assert template_of(found).spec == template_of(made).spec
    assert found.metadata.labels == made.metadata.labels
    assert found.metadata.annotations == {keys.TASK_SPEC: "w", keys.TASK_INDEX: "3", keys.GROUP_NAME: "g"}
    assert (found.metadata.name, found.metadata.namespace) == ("j-w-3", "n")
    assert is_seat(found.metadata.uid)


def test_seat_template_is_the_same_for_pods_that_differ_only_in_node_and_index():
    one, other = pod(), pod(nodeName="n7")
    other.metadata.labels[keys.TASK_INDEX] = "8"
    assert template_of(one) == template_of(other)
    assert template_of(one) != template_of(pod(container={"resources": {"requests": {"cpu": "2"}}}))
    assert PodTemplate() == template_of(records.Pod())


words = st.text(max_size=12)
nodes = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
tolerations = st.builds(records.Toleration, key=words, value=words, toleration_seconds=st.none() | st.integers(0, 600))
containers = st.builds(
    records.Container,
    name=words,
    resources=st.builds(records.Resources, requests=st.dictionaries(words, st.integers(0, 2**40) | words, max_size=3)),
)
specs = st.builds(
    records.PodSpec,
    priority=st.none() | st.integers(-(2**31), 2**31),
    node_selector=st.dictionaries(words, words, max_size=3),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    containers=st.lists(containers, max_size=2).map(tuple),
    init_containers=st.lists(containers, max_size=1).map(tuple),
    overhead=st.dictionaries(words, words, max_size=2),
)
templates = st.builds(
    PodTemplate, labels=st.dictionaries(words, words, max_size=3), annotations=st.dictionaries(words, words), spec=specs
)


@st.composite
def any_seats(draw):
    count = draw(st.integers(0, 4))
    tasks = tuple(
        TaskSeats(role=f"role{i}", prefix=f"job-role{i}-", count=draw(st.integers(0, 50)), pod=draw(templates))
        for i in range(count)
    )
    way = draw(st.sampled_from(["", "Claims"])) if not tasks else ""
    every = [Seat(task.role, index) for task in tasks for index in range(task.count)]
    asked = draw(st.none() | (st.sets(st.sampled_from(every), max_size=20) if every else st.just(set())))
    return Seats(generation=draw(st.integers(1, 9)), tasks=tasks, way=way, asked=None if asked is None else asking(asked))


@given(any_seats())
def test_requested_seats_are_preserved_by_encoding_and_parsing(seats):
    assert asking(parse_seats(encode(seats)).wanted()) == (seats.asked or {})


def test_consecutive_seat_indexes_become_one_row():
    assert asking(Seat("w", index) for index in (7, 3, 1, 2, 9)) == {"w": ((1, 3), (7, 1), (9, 1))}


def test_a_seat_without_a_node_is_answered_but_not_placed():
    found = parse_placement(encode(placed(2, {Seat("w", 2): "", Seat("w", 4): "n1"})))
    assert found.seats() == {Seat("w", 4): "n1"}
    assert Seat("w", 2) in found.answers()
    assert Seat("w", 5) not in found.answers()


@given(any_seats())
def test_encoded_seats_parse_to_equal_seats(seats):
    assert parse_seats(encode(seats)) == seats


@given(
    st.dictionaries(st.builds(Seat, st.sampled_from(["a", "b", "a-b"]), st.integers(0, 300)), nodes, max_size=40),
    st.integers(1, 9),
)
def test_encoded_placement_parses_to_the_same_nodes_and_generation(found, generation):
    placement = parse_placement(encode(placed(generation, found)))
    assert placement.seats() == found
    assert placement.generation == generation


def test_consecutive_seats_on_the_same_node_are_encoded_as_one_entry():
    found = {Seat("w", index): "n1" if index < 400 else "n2" for index in range(1000)}
    assert encode(placed(1, found)) == '{"nodes":{"w":[["n1",400],["n2",600]]},"version":1}'


@given(st.text())
def test_parsing_arbitrary_text_raises_no_error_except_seats_error(text):
    for parse in (parse_seats, parse_placement):
        with contextlib.suppress(SeatsError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"version":2}', "version: 2 is not known", id="another version"),
        pytest.param('{"generation":0}', "generation: 0 is below 1", id="no generation"),
        pytest.param('{"way":"Claims","tasks":[{"role":"a","prefix":"a-","count":1}]}', "way: there are tasks", id="both"),
        pytest.param('{"tasks":[{"role":"","prefix":"a-","count":1}]}', r"tasks\[0\].role: is empty", id="no role"),
        pytest.param('{"tasks":[{"role":"a","prefix":"A ","count":1}]}', r"tasks\[0\].prefix: 'A '", id="no name"),
        pytest.param('{"tasks":[{"role":"a","prefix":"a-","count":-1}]}', r"tasks\[0\].count", id="negative"),
        pytest.param(f'{{"tasks":[{{"role":"a","prefix":"a-","count":{MOST_SEATS + 1}}}]}}', "are more than", id="many"),
        pytest.param('{"tasks":[{"role":"a","prefix":"a-","count":1},{"role":"a","prefix":"b-","count":1}]}', "role", id="twice"),
        pytest.param('{"tasks":[{"role":"a","prefix":"a-","count":1},{"role":"b","prefix":"a-","count":1}]}', "name", id="names"),
        pytest.param('{"tasks":[{"role":"a","prefix":"a-","count":"x"}]}', "count", id="no number"),
        pytest.param('{"asked":{"a":[[0,1]]}}', "asked.a: there are no 1 seats from 0 on", id="asked of no task"),
        pytest.param('{"tasks":[{"role":"a","prefix":"a-","count":2}],"asked":{"a":[[1,2]]}}', "asked.a", id="asked beyond"),
        pytest.param('{"tasks":[{"role":"a","prefix":"a-","count":2}],"asked":{"a":[[-1,1]]}}', "asked.a", id="asked below"),
        pytest.param("[]", "object", id="a list"),
        pytest.param(" " * (LONGEST + 1), "characters", id="long"),
    ],
)
def test_parsing_an_invalid_seats_annotation_raises_seats_error_with_the_reason(text, message):
    with pytest.raises(SeatsError, match=message):
        parse_seats(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"nodes":{"w":[["n1",0]]}}', r"nodes.w: 0 seats in a row", id="none in a row"),
        pytest.param('{"nodes":{"w":[["../x",1]]}}', r"nodes.w: '../x' is no name of a node", id="no node"),
        pytest.param(f'{{"nodes":{{"w":[["n",{MOST_SEATS + 1}]]}}}}', "are more than", id="many"),
        pytest.param('{"version":0}', "version: 0 is not known", id="another version"),
        pytest.param('{"nodes":{"w":["n1"]}}', "array", id="no run"),
    ],
)
def test_parsing_an_invalid_placement_annotation_raises_seats_error_with_the_reason(text, message):
    with pytest.raises(SeatsError, match=message):
        parse_placement(text)


def test_encoding_seats_too_long_for_an_annotation_raises_seats_error():
    long = PodTemplate(labels={"a": "x" * LONGEST})
    with pytest.raises(SeatsError, match="at most"):
        encode(Seats(tasks=(TaskSeats(role="a", prefix="a-", count=1, pod=long),)))


def test_encoded_seats_omit_fields_with_default_values():
    text = encode(Seats(tasks=(TaskSeats(role="w", prefix="j-w-", count=2, pod=PodTemplate(labels={"empty": ""})),)))
    assert msgspec.json.decode(text) == {
        "version": 1,
        "tasks": [{"role": "w", "prefix": "j-w-", "count": 2, "pod": {"labels": {"empty": ""}}}],
    }
