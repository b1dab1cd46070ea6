"""Objects as clients of others post them: our rules find nothing in them, and we add no field that these do not know."""

from __future__ import annotations

from typing import Any

import pytest

from pyroclast.api.podgroups import PodGroupCondition, PodGroupSpec, PodGroupStatus
from pyroclast.api.wire import WireModel
from pyroclast.rules import jobs
from pyroclast.rules.verdicts import applied
from tests.unit.rules.builders import QUEUES

RESTART = [{"event": event, "action": "RestartJob"} for event in ("PodEvicted", "PodFailed")]


def torchx_task(name: str, *, retries: int = 0, **more: Any) -> dict[str, Any]:
    """One replica of a role."""
    container = {
        "name": name,
        "image": "busybox",
        "command": ["torchrun", "--nnodes", "2"],
        "env": [{"name": "TORCHX_RANK0_HOST", "value": "localhost"}],
        "ports": [{"name": "c10d", "containerPort": 29500}],
        "resources": {"limits": {"cpu": "2000m"}, "requests": {"cpu": "1900m"}},
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    }
    spec = {"containers": [container], "restartPolicy": "Never", "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]}
    template = {"metadata": {"labels": {"torchx.pytorch.org/role-name": "w"}}, "spec": spec}
    task = {"replicas": 1, "name": name, "template": template, "maxRetry": retries, "policies": RESTART if retries else []}
    return {**task, **more}


def torchx(*tasks: dict[str, Any], retries: int = 0, **more: Any) -> dict[str, Any]:
    plugins: dict[str, list[str]] = {"svc": ["--publish-not-ready-addresses"], "env": []}
    spec = {"schedulerName": "volcano", "queue": "default", "tasks": list(tasks), "maxRetry": retries, "plugins": plugins}
    meta = {"name": "train-x1", "namespace": "team-a"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": {**spec, **more}}


FORMS = {
    "two by four with retries": (
        torchx(
            *(torchx_task(f"w-{index}", retries=3) for index in range(8)),
            retries=3,
            priorityClassName="system-node-critical",
        ),
        8,
        3,
    ),
    "elastic, one to three": (torchx(*(torchx_task(f"w-{i}", minAvailable=1 if i == 0 else 0) for i in range(3))), 1, 3),
    "one shell": (torchx(torchx_task("sh-0")), 1, 3),
}
"""The Job, the gang that our defaults make of it, and the retries: 0 becomes 3, as in the original."""


@pytest.mark.parametrize(("body", "gang", "retries"), FORMS.values(), ids=FORMS.keys())
def test_torchx_job_is_defaulted_and_allowed_without_warnings(body: dict[str, Any], gang: int, retries: int) -> None:
    whole = applied(body, jobs.default(body))
    verdict = jobs.validate_create(whole, QUEUES)
    assert (verdict.allowed, verdict.message, list(verdict.warnings)) == (True, "", [])
    spec = whole["spec"]
    assert (spec["minAvailable"], spec["maxRetry"], {task["maxRetry"] for task in spec["tasks"]}) == (gang, retries, {retries})


TYPED: dict[type[WireModel], set[str]] = {
    PodGroupSpec: {
        "minMember",
        "minTaskMember",
        "queue",
        "priorityClassName",
        "minResources",
        "networkTopology",
        "subGroupPolicy",
    },
    PodGroupStatus: {"phase", "conditions", "running", "succeeded", "failed"},
    PodGroupCondition: {"type", "status", "transitionID", "lastTransitionTime", "reason", "message"},
}
"""The fields in the types of `volcano.sh/apis`: what else we kept there would go with the first write of a typed client."""


@pytest.mark.parametrize("model", TYPED, ids=lambda model: model.__name__)
def test_a_podgroup_has_no_field_that_typed_clients_lose(model: type[WireModel]) -> None:
    assert {field.alias or name for name, field in model.model_fields.items()} == TYPED[model]
