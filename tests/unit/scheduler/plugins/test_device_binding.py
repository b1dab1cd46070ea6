"""Devices that must be made ready for a node before a pod goes there: what is written, and what is waited for."""

from typing import Any

import msgspec
import pytest

from pyroclast.api import records
from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.plugins.predicates.devices import are_ready
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from tests.scenarios import claims, objects
from tests.scenarios.runner import feed
from tests.unit.scheduler import natives
from tests.unit.scheduler.deciding import committed

FABRIC = {"bindsToNode": True, "bindingConditions": ["attached"], "bindingFailureConditions": ["lost", "refused"]}
SETTINGS = Configuration(("allocate",), ((PluginEntry("gang"), PluginEntry("predicates")),))


def placed(tables: Any, *there: records.ResourceClaim) -> Any:
    """What has to be done before the only pod that is placed is bound."""
    cache = Cache()
    base = {"nodes": [["na", 8, "8Gi"]], "queues": [["q", {}]], "podgroups": [["j", "q", 1]]}
    feed(cache, {**base, **tables})
    for each in there:
        cache.object_changed(None, each)
    _, commits = committed(cache, SETTINGS)
    ((preparation,),) = [found for commit in commits for binds in commit.binds for found in binds.preparations.values()]
    return preparation


def tables(**more: Any) -> dict[str, Any]:
    return {
        "devices": {"na": [{"name": "g", "driver": "d.com", "more": FABRIC}]},
        "deviceClasses": {"gpu": 'device.driver == "d.com"'},
        "deviceClaims": {"c": {"class": "gpu", **more}},
        "pods": [["p", "j", "-", 1, "1Gi", {"claim": "c"}]],
    }


def test_the_allocation_names_the_conditions_and_the_node_and_the_bind_waits():
    preparation = placed(tables())
    status = preparation.writes[-1].patch["status"]
    (result,) = status["allocation"]["devices"]["results"]
    assert result["bindingConditions"] == ["attached"]
    assert result["bindingFailureConditions"] == ["lost", "refused"]
    (term,) = status["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["na"]}]
    assert status["allocation"]["allocationTimestamp"] == objects.timestamp(objects.NOW)
    assert preparation.writes[-1].undo["status"] == {"reservedFor": [], "allocation": None, "devices": None}
    (wait,) = preparation.awaits
    assert (wait.record, wait.key, wait.patience) == (records.ResourceClaim, "t/c", 600)


def test_other_devices_are_not_waited_for():
    plain = tables() | {"devices": {"na": ["g of driver d.com"]}}
    preparation = placed(plain)
    assert preparation.awaits == ()
    (result,) = preparation.writes[-1].patch["status"]["allocation"]["devices"]["results"]
    assert set(result) == {"request", "driver", "pool", "device"}


def claim(*said: tuple[str, str], allocated: bool = True) -> records.ResourceClaim:
    found = msgspec.to_builtins(claims.claim("c", {"class": "gpu"}))
    device = {"driver": "d.com", "pool": "na", "device": "g"}
    conditions = {"bindingConditions": FABRIC["bindingConditions"], "bindingFailureConditions": ["lost", "refused"]}
    if allocated:
        found["status"] = {"allocation": {"devices": {"results": [{"request": "r", **device, **conditions}]}}}
        found["status"]["devices"] = [{**device, "conditions": [{"type": kind, "status": status} for kind, status in said]}]
    return msgspec.convert(found, records.ResourceClaim)


LOST = "device g of claim c cannot be made ready: lost"


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (None, "the claim is gone"),
        (claim(allocated=False), False),
        (claim(), False),
        (claim(("attached", "False")), False),
        (claim(("attached", "True")), True),
        (claim(("attached", "True"), ("lost", "True")), LOST),
        (claim(("lost", "True"), ("refused", "True")), LOST),
        (claim(("attached", "True"), ("lost", "False")), True),
    ],
    ids=["gone", "no allocation", "nothing said", "not yet", "ready", "failed all the same", "failed twice", "not failed"],
)
def test_when_a_claim_is_ready(found, want):
    assert are_ready(found) == want


def placed_with(found: records.ResourceClaim) -> Any:
    """As `placed`, with a claim that is there already."""
    given = tables()
    return placed({key: given[key] for key in ("devices", "deviceClasses", "pods")}, found)


def test_a_claim_that_was_allocated_before_a_restart_is_waited_for():
    assert [wait.key for wait in placed_with(claim()).awaits] == ["t/c"]


def test_who_uses_a_claim_without_saying_its_uid_is_left_as_it_is():
    found = msgspec.to_builtins(claim(allocated=False))
    found["status"]["reservedFor"] = [{"resource": "pods", "name": "somebody"}]
    write = placed_with(msgspec.convert(found, records.ResourceClaim)).writes[-1]
    stays = {"resource": "pods", "name": "somebody"}
    assert [each["name"] for each in write.patch["status"]["reservedFor"]] == ["somebody", "p"]
    assert write.undo["status"]["reservedFor"] == [stays]


def native_gang(*, template: str = "t", pods: int = 2, mine: str = "t", parent: str = "") -> Any:
    """What has to be done before the pods of a gang are bound that share the claim of their PodGroup, in order of the pods."""
    cache, commits = Cache(), []
    known = {name: table for name, table in tables().items() if name != "pods"}
    feed(cache, {"nodes": [["na", 8, "8Gi"]], "queues": [["default", {}]], **known})
    shared = [{"name": "gpu", "resourceClaimTemplateName": template}]
    spec: dict[str, Any] = {"resourceClaims": shared}
    if parent:
        spec["parentCompositePodGroupName"] = parent
        cache.natives.composite_changed(None, natives.composite(parent, 1))
    cache.natives.group_changed(None, natives.gang(minimum=pods, spec=spec))
    for i in range(pods):
        pod = natives.pod(f"p{i}", spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": mine}]})
        status = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}
        cache.pod_changed(None, msgspec.structs.replace(pod, status=msgspec.convert(status, records.PodStatus)))
    _, commits = committed(cache, SETTINGS)
    made = {uid: found for commit in commits for binds in commit.binds for uid, found in binds.preparations.items()}
    return [made[uid][0].writes[-1] for uid in sorted(made)]


GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}


def test_a_claim_of_a_group_is_reserved_for_the_group_which_its_pods_take_back_together():
    writes = native_gang()
    assert [each.patch["status"]["reservedFor"] for each in writes] == [[GROUP], [GROUP]]
    assert [each.undo["status"] for each in writes] == [{"reservedFor": [], "allocation": None, "devices": None}] * 2
    assert all(each.is_shared for each in writes)


def test_a_claim_of_a_group_below_a_composite_is_reserved_for_that_group():
    writes = native_gang(parent="whole")
    assert [each.patch["status"]["reservedFor"] for each in writes] == [[GROUP], [GROUP]]


def test_the_only_pod_that_uses_it_takes_the_reservation_back():
    (write,) = native_gang(pods=1)
    assert write.patch["status"]["reservedFor"] == [GROUP]
    assert write.undo["status"] == {"reservedFor": [], "allocation": None, "devices": None}


def test_a_claim_that_a_pod_makes_in_another_way_is_its_own():
    (write,) = native_gang(pods=1, mine="other")
    assert not write.is_shared
    assert write.patch["status"]["reservedFor"] == [{"resource": "pods", "name": "p0", "uid": "uid-p0"}]
