"""Kinds that make pods from a template: Deployment, ReplicaSet, StatefulSet, DaemonSet and their like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyroclast_standalone.apiserver.documents import names
from pyroclast_standalone.apiserver.documents.errors import FieldError, forbidden
from pyroclast_standalone.apiserver.documents.tables import Column

from .cells import containers_of, selector_text
from .checks import immutable
from .pod_checks import check_template
from .pod_defaults import default_claim_spec, default_template
from .pod_warnings import warning_of
from .rules import AGE, NAME, Rules, age_of
from .workload_checks import (
    check_controller,
    check_daemon_set,
    check_deployment,
    check_replica_set,
    check_revision,
    check_stateful_set,
    checks_of_status,
)

__all__ = [
    "CONTROLLER_REVISION",
    "DAEMON_SET",
    "DEPLOYMENT",
    "POD_TEMPLATE",
    "REPLICATION_CONTROLLER",
    "REPLICA_SET",
    "STATEFUL_SET",
]

_APPS: Final = "io.k8s.api.apps.v1."
_STATEFUL_CHANGES: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_CONTAINERS: Final = Column("Containers", priority=1, description="Names of the containers in the template.")
_IMAGES: Final = Column("Images", priority=1, description="Images of the containers in the template.")


def _rolling(strategy: dict[str, Any], **values: Any) -> None:  # noqa: ANN401  # numbers or percentages
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            rolling = strategy["rollingUpdate"] = {}
        for field, value in values.items():
            rolling.setdefault(field, value)


def _default_deployment(document: dict[str, Any]) -> None:
    spec = document["spec"]
    default_template(spec["template"])
    spec.setdefault("replicas", 1)
    _rolling(spec["strategy"], maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _default_replica_set(document: dict[str, Any]) -> None:
    document["spec"].setdefault("replicas", 1)
    default_template(document["spec"]["template"])


def _default_replication_controller(document: dict[str, Any]) -> None:
    spec = document["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    default_template(template)
    if labels := template["metadata"].get("labels"):
        spec.setdefault("selector", dict(labels))
        document["metadata"].setdefault("labels", dict(labels))


def _default_daemon_set(document: dict[str, Any]) -> None:
    spec = document["spec"]
    default_template(spec["template"])
    _rolling(spec["updateStrategy"], maxUnavailable=1, maxSurge=0)
    spec.setdefault("revisionHistoryLimit", 10)
    document["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "1")


def _prepare_daemon_set_update(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    number = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
    number += new["spec"]["template"] != old["spec"]["template"]
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(number)


def _default_stateful_set(document: dict[str, Any]) -> None:
    spec = document["spec"]
    default_template(spec["template"])
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    policy.setdefault("whenDeleted", "Retain")
    policy.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        default_claim_spec(claim["spec"])
        claim["status"] = {"phase": "Pending", **claim.get("status", {})}


def _fixed_selector(
    check: Callable[[dict[str, Any]], list[FieldError]],
) -> Callable[[dict[str, Any], dict[str, Any]], list[FieldError]]:
    def check_update(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        return [*check(new), *immutable(new["spec"], old["spec"], "selector", "spec.selector")]

    return check_update


def _update_stateful_set(new: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    errors = check_stateful_set(new)
    compared = {key: value for key, value in new["spec"].items() if key not in _STATEFUL_CHANGES}
    before = {key: value for key, value in old["spec"].items() if key not in _STATEFUL_CHANGES}
    if compared != before:
        free = ", ".join(f"'{name}'" for name in _STATEFUL_CHANGES[:-1])
        text = f"updates to statefulset spec for fields other than {free} and '{_STATEFUL_CHANGES[-1]}' are forbidden"
        errors.append(forbidden("spec", text))
    return errors


def _set_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    return [
        document["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(document, now),
        *containers_of((spec.get("template") or {}).get("spec") or {}),
        selector_text(spec.get("selector")),
    ]


def _deployment_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    return [
        document["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(document, now),
        *containers_of(spec["template"]["spec"]),
        selector_text(spec.get("selector"), empty=""),
    ]


def _stateful_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [document["metadata"]["name"], ready, age_of(document, now), *containers_of(spec["template"]["spec"])]


def _daemon_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    spec, status = document["spec"], document.get("status") or {}
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    return [
        document["metadata"]["name"],
        *(status.get(count, 0) for count in counts),
        selector_text(spec["template"]["spec"].get("nodeSelector")),
        age_of(document, now),
        *containers_of(spec["template"]["spec"]),
        selector_text(spec.get("selector")),
    ]


def _set_columns(prefix: str) -> tuple[Column, ...]:
    return (
        NAME,
        Column("Desired", type="integer", doc=f"{prefix}Spec.replicas"),
        Column("Current", type="integer", doc=f"{prefix}Status.replicas"),
        Column("Ready", type="integer", doc=f"{prefix}Status.readyReplicas"),
        AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", priority=1, doc=f"{prefix}Spec.selector"),
    )


def _keep_labels(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    new["metadata"]["labels"] = old["metadata"].get("labels") or {}
    if not new["metadata"]["labels"]:
        del new["metadata"]["labels"]


DEPLOYMENT: Final = Rules(
    prepare_status=_keep_labels,
    kept_from_status=("f:metadata/f:labels",),
    warnings=warning_of("spec", "template", names_pods=True),
    default=_default_deployment,
    check=check_deployment,
    check_update=_fixed_selector(check_deployment),
    check_status=checks_of_status(
        (
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ),
        (
            ("updatedReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ),
    ),
    generation=True,
    columns=(
        NAME,
        Column("Ready", description="How many pods are ready, of how many."),
        Column("Up-to-date", doc=f"{_APPS}DeploymentStatus.updatedReplicas"),
        Column("Available", doc=f"{_APPS}DeploymentStatus.availableReplicas"),
        AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", priority=1, doc=f"{_APPS}DeploymentSpec.selector"),
    ),
    cells=_deployment_cells,
)


def _replicas(document: Mapping[str, Any]) -> str:
    return str((document.get("status") or {}).get("replicas", 0))


_CHECK_SET_STATUS: Final = checks_of_status(
    ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"),
    (
        ("fullyLabeledReplicas", "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ),
)
REPLICA_SET: Final = Rules(
    warnings=warning_of("spec", "template"),
    default=_default_replica_set,
    check=check_replica_set,
    check_update=_fixed_selector(check_replica_set),
    check_status=_CHECK_SET_STATUS,
    prepare=lambda document: document.update(status={"replicas": 0}),
    generation=True,
    columns=_set_columns(f"{_APPS}ReplicaSet"),
    cells=_set_cells,
)
REPLICATION_CONTROLLER: Final = Rules(
    warnings=warning_of("spec", "template"),
    default=_default_replication_controller,
    check=check_controller,
    check_update=lambda new, _old: check_controller(new),
    check_status=_CHECK_SET_STATUS,
    prepare=lambda document: document.update(status={"replicas": 0}),
    fields={"status.replicas": _replicas},
    generation=True,
    columns=_set_columns("io.k8s.api.core.v1.ReplicationController"),
    cells=_set_cells,
)
STATEFUL_SET: Final = Rules(
    warnings=warning_of("spec", "template"),
    default=_default_stateful_set,
    name=names.dns_label,
    check=check_stateful_set,
    check_update=_update_stateful_set,
    check_status=checks_of_status(
        (
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ),
        (
            ("readyReplicas", "replicas", "status.replicas"),
            ("currentReplicas", "replicas", "status.replicas"),
            ("updatedReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "status.readyReplicas"),
        ),
    ),
    generation=True,
    columns=(NAME, Column("Ready", description="How many pods are ready, of how many."), AGE, _CONTAINERS, _IMAGES),
    cells=_stateful_cells,
)
DAEMON_SET: Final = Rules(
    warnings=warning_of("spec", "template"),
    default=_default_daemon_set,
    check=check_daemon_set,
    prepare_update=_prepare_daemon_set_update,
    check_update=_fixed_selector(check_daemon_set),
    check_status=checks_of_status(
        (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ),
        (),
    ),
    generation=True,
    columns=(
        NAME,
        Column("Desired", type="integer", doc=f"{_APPS}DaemonSetStatus.desiredNumberScheduled"),
        Column("Current", type="integer", doc=f"{_APPS}DaemonSetStatus.currentNumberScheduled"),
        Column("Ready", type="integer", doc=f"{_APPS}DaemonSetStatus.numberReady"),
        Column("Up-to-date", type="integer", doc=f"{_APPS}DaemonSetStatus.updatedNumberScheduled"),
        Column("Available", type="integer", doc=f"{_APPS}DaemonSetStatus.numberAvailable"),
        Column("Node Selector", doc="io.k8s.api.core.v1.PodSpec.nodeSelector"),
        AGE,
        _CONTAINERS,
        _IMAGES,
        Column("Selector", priority=1, doc=f"{_APPS}DaemonSetSpec.selector"),
    ),
    cells=_daemon_cells,
)


def _revision_cells(document: Mapping[str, Any], now: float) -> list[Any]:
    owner = next((each for each in document["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    group = owner["apiVersion"].rpartition("/")[0] if owner else ""
    name = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}" if owner else "<none>"
    return [document["metadata"]["name"], name, document.get("revision", 0), age_of(document, now)]


CONTROLLER_REVISION: Final = Rules(
    check=check_revision,
    columns=(
        NAME,
        Column("Controller", description="Who made it."),
        Column("Revision", doc=f"{_APPS}ControllerRevision.revision"),
        AGE,
    ),
    cells=_revision_cells,
)


def _template_cells(document: Mapping[str, Any], _now: float) -> list[Any]:
    template = document["template"]
    labels = selector_text(template["metadata"].get("labels"))
    return [document["metadata"]["name"], *containers_of(template["spec"]), labels]


def _count_templates(new: dict[str, Any], old: Mapping[str, Any]) -> None:
    new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + (new["template"] != old["template"])


POD_TEMPLATE: Final = Rules(
    default=lambda document: default_template(document["template"]),
    check=lambda document: check_template(document["template"], "template"),
    check_update=lambda new, _old: check_template(new["template"], "template"),
    prepare=lambda document: document["metadata"].update(generation=1),
    prepare_update=_count_templates,
    warnings=warning_of("template"),
    deletes_to_object=True,
    columns=(
        NAME,
        Column("Containers", description=_CONTAINERS.description),
        Column("Images", description=_IMAGES.description),
        Column("Pod Labels", description="The labels of pods made from the template."),
    ),
    cells=_template_cells,
)
