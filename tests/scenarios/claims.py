"""Devices, classes of them and claims on them in a scenario.

devices: {node: [name of driver DRIVER, ...]}, or {node: [{name, driver, attributes, uses, more}]}, where `uses` are amounts of
the shared counters of an entry {driver, counters}, and `more` further fields of the device
deviceClasses: {name: expression}; deviceClaims: {name: {class, count, mode, selector, same, of}}
claim of a pod: one device of class NAME; or the name of one of deviceClaims
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pyroclast.api import records
from pyroclast.api.records.meta import Record

from .objects import NAMESPACE

EXPRESSIONS = {
    "driver equals gpu.example.com": 'device.driver == "gpu.example.com"',
    "expression that fails at run time": 'device.attributes["gpu.example.com"].absent == "x"',
}


def of(tables: Mapping[str, Any]) -> Iterator[Record]:
    """The records of all that the tables name, and of the claims that pods describe in words."""
    for node, devices in (tables.get("devices") or {}).items():
        by_driver: dict[str, list[dict[str, Any]]] = {}
        for each in (each for each in devices if isinstance(each, str) or "name" in each):
            name, driver = (each.split()[0], each.split()[-1]) if isinstance(each, str) else (each["name"], each["driver"])
            options = {} if isinstance(each, str) else each
            device = {"name": name, "attributes": options.get("attributes", {}), **options.get("more", {})}
            if "uses" in options:
                device["consumesCounters"] = [{"counterSet": "all", "counters": values(options["uses"])}]
            by_driver.setdefault(driver, []).append(device)
        shared = {each["driver"]: each["counters"] for each in devices if "counters" in each and not isinstance(each, str)}
        for driver, found in by_driver.items():
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": found}
            if driver in shared:
                spec["sharedCounters"] = [{"name": "all", "counters": values(shared[driver])}]
            yield msgspec.convert({"metadata": {"name": f"{node}-{driver}"}, "spec": spec}, records.ResourceSlice)
    for name, expression in (tables.get("deviceClasses") or {}).items():
        yield device_class(name, expression)
    for name, given in (tables.get("deviceClaims") or {}).items():
        yield claim(name, given)
    for row in tables.get("pods") or []:
        words = str(row[5].get("claim", "")) if len(row) > 5 else ""
        if " " in words:
            wanted = words.split()[-1]
            yield claim(f"{row[0]}-claim", {"class": wanted})
            if "classSelector" in tables:
                yield device_class(wanted, EXPRESSIONS[tables["classSelector"]])


def values(amounts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def device_class(name: str, expression: str) -> records.DeviceClass:
    body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    return msgspec.convert(body, records.DeviceClass)


def claim(name: str, given: Mapping[str, Any]) -> records.ResourceClaim:
    wish = {"deviceClassName": given["class"], "count": given.get("count", 1), "allocationMode": given.get("mode", "ExactCount")}
    if "selector" in given:
        wish["selectors"] = [{"cel": {"expression": given["selector"]}}]
    request: dict[str, Any] = {"name": "r", "exactly": wish}
    if "first" in given:
        alternatives = [{"name": f"s{at}", "deviceClassName": each} for at, each in enumerate(given["first"])]
        request = {"name": "r", "firstAvailable": alternatives}
    devices: dict[str, Any] = {"requests": [request]}
    if "same" in given:
        devices["constraints"] = [{"matchAttribute": given["same"]}]
    body: dict[str, Any] = {"metadata": {"namespace": NAMESPACE, "name": name, "uid": name}, "spec": {"devices": devices}}
    if "has" in given:
        node, driver, device = given["has"]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        body["status"] = {
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": driver, "pool": node, "device": device}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }
        }
    return msgspec.convert(body, records.ResourceClaim)
