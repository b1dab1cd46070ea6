"""The hash ring of several schedulers, by points worked out from the original's rule."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler.model.sharding import Ring, ring_key, ring_of

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
