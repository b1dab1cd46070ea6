"""The hash ring of several schedulers, by points worked out from the original's rule."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.api import records
from pyroclast_scheduler.model.ring import Ring, ring_key, ring_of

RING = Ring("vc-scheduler-1", 3)


@given(st.text(max_size=20))
def test_a_key_goes_to_the_first_point_after_it(key):
    points = [(zlib.crc32(f"{k}vc-scheduler-{i}".encode()), f"vc-scheduler-{i}") for i in range(3) for k in range(20)]
    after = [point for point in points if point[0] > zlib.crc32(key.encode())]
    assert RING.owner(key) == min(after or points)[1]


def test_members_agree_and_divide_everything():
    members = [Ring(f"s-{i}", 3) for i in range(3)]
    owned = [{name for name in map(str, range(300)) if member.is_mine(name)} for member in members]
    assert sum(map(len, owned)) == len(set.union(*owned)) == 300
    assert all(len(each) > 30 for each in owned)


def environment(name="s-0", number="2", enable="true"):
    return {"MULTI_SCHEDULER_ENABLE": enable, "SCHEDULER_NUM": number, "SCHEDULER_POD_NAME": name}


def test_the_environment_describes_the_ring():
    ring = ring_of(environment("my-vc-1"))
    assert ring is not None
    assert (ring.member, ring.index) == ("my-vc-1", 1)
    assert {ring.owner(str(i)) for i in range(50)} == {"my-vc-0", "my-vc-1"}
    assert ring_of({}) is None
    assert ring_of(environment(enable="false")) is None


@pytest.mark.parametrize("number", ["", "many", "0", "-2"])
def test_a_number_that_cannot_be_read_is_one(number):
    ring = ring_of(environment(number=number))
    assert ring is not None
    assert ring.is_mine("anything")


@pytest.mark.parametrize("name", ["", "s", "s-x", "s-2"])
def test_who_is_no_member_does_not_start(name):
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
def test_what_a_pod_is_divided_by(meta, want):
    assert ring_key(meta) == want
