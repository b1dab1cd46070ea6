"""Rows of built-in kinds from the table of data; the cells are those of kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast_standalone.apiserver.documents.jsonpath import compile_path
from pyroclast_standalone.apiserver.kinds.builtins import BUILTINS
from pyroclast_standalone.apiserver.kinds.printed import entries_of, printed
from pyroclast_standalone.apiserver.kinds.registry import builtin_strategies

NOW = 1_577_836_800.0 + 90  # 90 s after the objects were made
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "e", "image": "j"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
SUSPENDED = {"type": "Suspended", "status": "True"}
CASES: list[tuple[str, dict[str, Any], list[Any]]] = [
    (
        "apps/Deployment",
        {"spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}, "status": {"readyReplicas": 1}},
        ["1/3", 0, 0, "90s", "c,e", "i,j", "a=b"],
    ),
    ("apps/ReplicaSet", {"spec": {"replicas": 2, "template": TEMPLATE}}, [2, 0, 0, "90s", "c,e", "i,j", "<none>"]),
    ("apps/StatefulSet", {"spec": {"template": TEMPLATE}}, ["0/0", "90s", "c,e", "i,j"]),
    ("apps/DaemonSet", {"spec": {"template": {"spec": {}}}}, [0, 0, 0, 0, 0, "<none>", "90s", "", "", "<none>"]),
    (
        "batch/Job",
        {"spec": {"completions": 1, "template": TEMPLATE}, "status": {"conditions": [SUSPENDED]}},
        ["Suspended", "0/1", "", "90s", "c,e", "i,j", "<none>"],
    ),
    (
        "batch/Job",
        {"spec": {"parallelism": 2}, "status": {"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:01:00Z"}},
        ["Running", "0/1 of 2", "60s", "90s", "", "", "<none>"],
    ),
    (
        "batch/CronJob",
        {"spec": {"schedule": "* * * * *", "suspend": True}},
        ["* * * * *", "<none>", "True", 0, "<none>", "90s", "", "", "<none>"],
    ),
    (
        "networking.k8s.io/Ingress",
        {"spec": {"tls": [{}], "rules": [{"host": name} for name in "abcd"]}},
        ["<none>", "a,b,c + 1 more...", "", "80, 443", "90s"],
    ),
    ("networking.k8s.io/Ingress", {"spec": {"ingressClassName": "x"}}, ["x", "*", "", "80", "90s"]),
    ("policy/PodDisruptionBudget", {"spec": {"minAvailable": "30%"}}, ["30%", "N/A", 0, "90s"]),
    ("policy/PodDisruptionBudget", {"spec": {"maxUnavailable": 0}}, ["N/A", "0", 0, "90s"]),
    (
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}], "ports": [{"port": 80}, {"port": 81}]}]},
        ["1.1.1.1:80,1.1.1.2:80,1.1.1.1:81 + 1 more...", "90s"],
    ),
    ("ConfigMap", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "Mw=="}}, [3, "90s"]),
    (
        "PersistentVolumeClaim",
        {"spec": {"volumeName": "v"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}},
        ["Bound", "v", "0", "RWO,RWX", "", "<unset>", "90s", "<unset>"],
    ),
    (
        "PersistentVolumeClaim",
        {"metadata": {"deletionTimestamp": "x"}},
        ["Terminating", "", "", "", "", "<unset>", "90s", "<unset>"],
    ),
    (
        "rbac.authorization.k8s.io/RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
        },
        ["Role/r", "90s", "u", "", "/s"],
    ),
    ("rbac.authorization.k8s.io/Role", {}, ["2020-01-01T00:00:00Z"]),
    (
        "apps/ControllerRevision",
        {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}]}},
        ["statefulset.apps/s", 0, "90s"],
    ),
    ("storage.k8s.io/CSINode", {"spec": {"drivers": [{}, {}]}}, [2, "90s"]),
    ("made.up/Kind", {}, ["90s"]),
]


@pytest.mark.parametrize(
    ("kind", "document", "cells"), CASES, ids=[f"{kind} {index}" for index, (kind, _, _) in enumerate(CASES)]
)
def test_built_in_kinds_print_their_columns_from_spec_and_status(kind: str, document: dict[str, Any], cells: list[Any]) -> None:
    group, _, name = kind.rpartition("/")
    metadata = {"name": "x", "creationTimestamp": "2020-01-01T00:00:00Z", **document.get("metadata", {})}
    columns, show = printed(group, name)
    shown = show({**document, "metadata": metadata}, NOW)
    assert shown == ["x", *cells]
    assert len(columns) == len(shown)


def test_every_kind_has_as_many_cells_as_columns() -> None:
    document: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {}, "status": {}, "roleRef": {}}
    for strategy in builtin_strategies():
        assert len(strategy.cells(document, NOW)) == len(strategy.columns), strategy.kind


def test_printer_table_has_only_served_kinds_and_valid_paths() -> None:
    served = {f"{each.group}/{each.kind}".removeprefix("/") for each in BUILTINS}
    assert set(entries_of()) <= served
    for entries in entries_of().values():
        for path in (path for entry in entries if entry != "age" for path in _paths(entry)):
            compile_path(path)


def _paths(entry: dict[str, Any]) -> list[str]:
    given = entry.get("at", [])
    return [given] if isinstance(given, str) else given
