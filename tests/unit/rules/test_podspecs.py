"""Pods by one set of rules: what admission takes of a template the API server takes of its pods, newer fields aside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pyroclast.rules.podspecs import ADMISSION, SERVER, check_new_pod, check_template
from pyroclast.rules.podspecs.spec import check_pod_spec
from tests.unit.rules.builders import template

RECORDED = Path(__file__).parents[1] / "apiserver_documents" / "recorded" / "kinds.jsonl"
PODS = [row for row in map(json.loads, RECORDED.read_text(encoding="utf-8").splitlines()) if row["path"].endswith("/pods")]
TEMPLATES = [
    json.loads(line) for line in (Path(__file__).parent / "recorded" / "templates.jsonl").read_text(encoding="utf-8").splitlines()
]
"""Templates, most with one thing changed at random, and what `recorded/templates.go` says of them."""
ONLY_OF_PODS = {"name", "spec.nodeName", "spec.containers[0].image", "spec.volumes[0].image.reference"}
NEWER = ("fileKeyRef", "restartPolicy", "hostnameOverride", "env[4].name", "dnsConfig.searches[1]")
"""Fields for which the recorded API server has newer rules than Kubernetes' check of a template that admission follows."""

MODE = {"defaultMode": 420}
VOLUME = {"configMap": {"name": "c", "items": [{"key": "k", "path": "same"}]}}
TWICE = {
    "name": "v",
    "projected": {"sources": [VOLUME, {"secret": {"name": "s", "items": [{"key": "k", "path": "same"}]}}], **MODE},
}
CLAIM = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}}


@pytest.mark.parametrize("options", [ADMISSION, SERVER], ids=["admission", "server"])
@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"volumes": [TWICE]}, "spec.volumes[0].projected", "conflicting duplicate paths"),
        (
            {"resourceClaims": [{"name": "a", "resourceClaimName": "Bad_"}]},
            "spec.resourceClaims[0].resourceClaimName",
            "a lowercase RFC 1123 subdomain must",
        ),
        (
            {"volumes": [CLAIM]},
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes",
            "at least 1 access mode is required",
        ),
        (
            {"securityContext": {"windowsOptions": {"runAsUserName": ""}}},
            "spec.securityContext.windowsOptions.runAsUserName",
            "runAsUserName cannot be an empty string",
        ),
        ({"volumes": [{"name": "v", "csi": {"driver": "A_/"}}]}, "spec.volumes[0].csi.driver", "a lowercase RFC 1123 subdomain"),
        ({"dnsConfig": {"nameservers": ["01.2.3.4"]}}, "spec.dnsConfig.nameservers[0]", "must not have leading 0s"),
    ],
)
def test_admission_and_api_server_rules_refuse_the_same_invalid_pod_spec_fields(
    options: Any, fields: dict[str, Any], field: str, words: str
) -> None:
    spec = {**template()["spec"], "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", **fields}
    for container in spec["containers"]:
        container.update(imagePullPolicy="Always", terminationMessagePolicy="File")
    errors: list[Any] = []
    check_pod_spec(spec, "spec", errors, options)
    assert [error.path for error in errors] == [field]
    assert words in errors[0].detail


def compared(fields: Iterable[str]) -> set[str]:
    """Invalid fields of a pod or a template; the API server copies limits to requests, so that both are invalid."""
    found = {field.removeprefix("template.").removeprefix("metadata.").replace(".requests", ".limits") for field in fields}
    return {field for field in found - ONLY_OF_PODS if not any(part in field for part in NEWER)}


@pytest.mark.parametrize("row", PODS, ids=lambda row: json.dumps(row["sent"]["spec"])[:60])
def test_admission_refuses_the_fields_of_a_template_that_the_api_server_refused_in_its_pod(row: dict[str, Any]) -> None:
    metadata = {key: row["sent"]["metadata"][key] for key in ("labels", "annotations") if key in row["sent"]["metadata"]}
    errors = check_template({"metadata": metadata, "spec": row["sent"]["spec"]}, task_name="t")
    assert compared(error.path for error in errors) == compared(cause["field"] for cause in row["causes"])


def test_missing_defaulted_fields_are_refused_in_a_pod_but_not_in_a_template() -> None:
    pod = {"metadata": {"name": "p"}, "spec": template()["spec"]}
    wanted = {f"spec.{field}" for field in ("restartPolicy", "dnsPolicy")}
    wanted |= {f"spec.containers[0].{field}" for field in ("imagePullPolicy", "terminationMessagePolicy")}
    assert {error.path for error in check_new_pod(pod)} == wanted
    assert check_template(template(), task_name="t") == []


@pytest.mark.parametrize("row", TEMPLATES, ids=lambda row: json.dumps(row["template"]["spec"])[-60:])
def test_template_errors_equal_those_of_kubernetes_in_text_and_order(row: dict[str, Any]) -> None:
    errors = check_template(row["template"], task_name="task-1", pod_level_resources=row.get("levels", True))
    said = [str(error) for error in errors]
    if any(".limits[" in each or ".requests[" in each for each in said):  # in the order of a map, which is random
        said, row["errors"] = sorted(said), sorted(row["errors"])
    assert said == row["errors"]
