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


def test_a_device_with_binding_conditions_is_allocated_for_the_node_and_the_bind_waits():
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


def test_a_bind_does_not_wait_for_devices_without_binding_conditions():
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
def test_a_claim_is_ready_when_binding_conditions_are_true_and_no_failure_condition_is(found, want):
    assert are_ready(found) == want


def placed_with(found: records.ResourceClaim) -> Any:
    """As `placed`, with a claim that is there already."""
    given = tables()
    return placed({key: given[key] for key in ("devices", "deviceClasses", "pods")}, found)


def test_a_claim_that_was_allocated_before_a_restart_is_waited_for():
    assert [wait.key for wait in placed_with(claim()).awaits] == ["t/c"]


def test_a_claim_consumer_without_a_uid_is_kept_in_reserved_for():
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


def test_a_podgroup_claim_is_reserved_for_the_podgroup_and_undone_by_its_pods_together():
    writes = native_gang()
    assert [each.patch["status"]["reservedFor"] for each in writes] == [[GROUP], [GROUP]]
    assert [each.undo["status"] for each in writes] == [{"reservedFor": [], "allocation": None, "devices": None}] * 2
    assert all(each.is_shared for each in writes)


def test_a_claim_of_a_podgroup_in_a_composite_is_reserved_for_that_podgroup():
    writes = native_gang(parent="whole")
    assert [each.patch["status"]["reservedFor"] for each in writes] == [[GROUP], [GROUP]]


def test_the_reservation_of_a_podgroup_claim_is_undone_by_its_only_pod():
    (write,) = native_gang(pods=1)
    assert write.patch["status"]["reservedFor"] == [GROUP]
    assert write.undo["status"] == {"reservedFor": [], "allocation": None, "devices": None}


def test_a_claim_from_a_template_other_than_the_podgroups_is_reserved_for_the_pod():
    (write,) = native_gang(pods=1, mine="other")
    assert not write.is_shared
    assert write.patch["status"]["reservedFor"] == [{"resource": "pods", "name": "p0", "uid": "uid-p0"}]


def rule(effect: str = "NoSchedule", **selector: str) -> records.DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    return msgspec.convert({"metadata": {"name": "r"}, "spec": spec}, records.DeviceTaintRule)


PLAIN = {"devices": {"na": ["g of driver d.com"]}}
CLASS = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "d.com/gpu"}}
SHARED = {"devices": {"na": [{"name": "g", "driver": "d.com", "more": {"allowMultipleAllocations": True}}]}}
UNSERVED: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a rule taints the device": (PLAIN, rule(driver="d.com", pool="na", device="g"), "1 cannot allocate all claims"),
    "a rule taints all devices": (PLAIN, rule("NoExecute"), "1 cannot allocate all claims"),
    "a rule taints another device": (PLAIN, rule(driver="d.com", device="other"), ""),
    "a rule without effect": (PLAIN, rule("None"), ""),
    "a device that claims may share": (SHARED, None, "devices that several claims may share (allowMultipleAllocations) are not"),
    "an extended resource of a class": (
        {"pods": [["p", "j", "-", 1, "1Gi", {"d.com/gpu": 1}]]},
        msgspec.convert(CLASS, records.DeviceClass),
        "extended resource d.com/gpu is offered by DeviceClass gpu; this scheduler allocates devices to ResourceClaims only",
    ),
    "the implicit extended resource of a class": (
        {"pods": [["p", "j", "-", 1, "1Gi", {"deviceclass.resource.kubernetes.io/gpu": 1}]]},
        None,
        "is offered by DeviceClass gpu",
    ),
    "semver in an expression": ({"deviceClasses": {"gpu": 'semver("1.0.0").major() == 1'}}, None, 'semver("1.0.0").major() == 1'),
    "cel.bind in an expression": ({"deviceClasses": {"gpu": "cel.bind(x, 1, x == 1)"}}, None, "cel.bind(x, 1, x == 1)"),
}


@pytest.mark.parametrize(("changed", "other", "want"), UNSERVED.values(), ids=UNSERVED)
def test_devices_that_are_not_allocated_are_refused_with_a_reason(changed: dict[str, Any], other: Any, want: str):
    cache = Cache()
    feed(cache, {"nodes": [["na", 8, "8Gi"]], "queues": [["q", {}]], "podgroups": [["j", "q", 1]], **tables(), **changed})
    if other is not None:
        cache.object_changed(None, other)
    outcome, commits = committed(cache, SETTINGS)
    assert bool(commits) is not bool(want)
    assert any(want in each.message for each in outcome.waiting) or not want
