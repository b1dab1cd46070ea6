"""What the API server adds to the amounts of a new pod. `tests/e2e/scheduling/test_amounts.py` asks the API server itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pyroclast.resources.pods import Additions, as_stored, effective

GPU = "example.com/gpu"
HUGE = "hugepages-2Mi"
SANDBOX = "sandbox"


def container(name: str = "c", *, limits: Any = None, requests: Any = None, **more: Any) -> dict[str, Any]:
    resources = {kind: amounts for kind, amounts in (("limits", limits), ("requests", requests)) if amounts}
    return {"name": name, "image": "busybox:1.37", "resources": resources, **more}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"restartPolicy": "Never", "containers": list(containers), **spec}


@dataclass(frozen=True)
class Case:
    """`ranges`: `spec.limits` of each LimitRange. `overhead`: of the RuntimeClass `sandbox`. `want`: the requests of the pod."""

    spec: dict[str, Any]
    want: dict[str, str]
    ranges: list[list[dict[str, Any]]] = field(default_factory=list)
    overhead: dict[str, str] = field(default_factory=dict)


def of_containers(**item: Any) -> list[list[dict[str, Any]]]:
    return [[{"type": "Container", **item}]]


CASES = {
    "limits only": Case(pod(container(limits={"cpu": "2", "memory": "1Gi", GPU: "1"})), {"cpu": "2", "memory": "1Gi", GPU: "1"}),
    "limits only in one of two containers": Case(
        pod(container(limits={"cpu": "2"}), container("d", requests={"cpu": "1"}, limits={"cpu": "3", "memory": "1Gi"})),
        {"cpu": "3", "memory": "1Gi"},
    ),
    "limits of an init container": Case(
        pod(container(limits={"cpu": "1"}), initContainers=[container("i", limits={"cpu": "4"})]), {"cpu": "4"}
    ),
    "limits of a sidecar": Case(
        pod(container(limits={"cpu": "1"}), initContainers=[container("s", limits={"cpu": "4"}, restartPolicy="Always")]),
        {"cpu": "5"},
    ),
    "huge pages": Case(
        pod(container(limits={HUGE: "4Mi", "memory": "1Gi"}, requests={"cpu": "1"})), {HUGE: "4Mi", "cpu": "1", "memory": "1Gi"}
    ),
    "a default limit": Case(pod(container()), {"cpu": "2"}, of_containers(default={"cpu": "2"})),
    "a default request beside a default limit": Case(
        pod(container(), container("d", limits={"cpu": "1"})),
        {"cpu": "1500m"},
        of_containers(default={"cpu": "2"}, defaultRequest={"cpu": "500m"}),
    ),
    "a minimum and a maximum": Case(
        pod(container()),
        {"cpu": "3", "memory": "64Mi"},
        of_containers(max={"cpu": "3"}, min={"cpu": "1", "memory": "64Mi"}),
    ),
    "defaults for init containers too": Case(
        pod(container(requests={"cpu": "1"}), initContainers=[container("i")]), {"cpu": "2"}, of_containers(default={"cpu": "2"})
    ),
    "limits of a ratio and of pods, which add nothing": Case(
        pod(container(requests={"cpu": "1"}, limits={"cpu": "2"})),
        {"cpu": "1"},
        [[{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, {"type": "Pod", "max": {"cpu": "8"}}]],
    ),
    "two LimitRanges": Case(
        pod(container()),
        {"cpu": "1", "memory": "1Gi"},
        of_containers(defaultRequest={"cpu": "1"}) + of_containers(defaultRequest={"memory": "1Gi"}),
    ),
    "overhead of a RuntimeClass": Case(
        pod(container(limits={"cpu": "1"}), runtimeClassName=SANDBOX),
        {"cpu": "1250m", "memory": "64Mi"},
        overhead={"cpu": "250m", "memory": "64Mi"},
    ),
    "limits of the whole pod": Case(
        pod(container(), resources={"limits": {"cpu": "2", "memory": "1Gi"}}), {"cpu": "2", "memory": "1Gi"}
    ),
    "limits of the whole pod above its containers": Case(
        pod(container(requests={"cpu": "1"}), resources={"limits": {"cpu": "4", "memory": "1Gi"}}), {"cpu": "1", "memory": "1Gi"}
    ),
    "requests of the whole pod, and a default for containers": Case(
        pod(container(), resources={"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}),
        {"cpu": "2", "memory": "1Gi"},
        of_containers(defaultRequest={"cpu": "500m", "memory": "1Gi"}),
    ),
    "huge pages beside limits of the whole pod": Case(
        pod(container(limits={HUGE: "4Mi", "memory": "1Gi"}), resources={"limits": {"cpu": "2"}}),
        {HUGE: "4Mi", "cpu": "2", "memory": "1Gi"},
    ),
    "everything at once": Case(
        pod(
            container(limits={"cpu": "1"}),
            initContainers=[container("s", restartPolicy="Always"), container("i", limits={"memory": "2Gi"})],
            runtimeClassName=SANDBOX,
        ),
        {"cpu": "1600m", "memory": "2304Mi"},
        of_containers(defaultRequest={"cpu": "500m", "memory": "256Mi"}),
        {"cpu": "100m"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_template_has_the_amounts_that_the_api_server_stores(case: Case) -> None:
    additions = Additions.of(case.ranges, {SANDBOX: case.overhead})
    once = as_stored(case.spec, additions)
    for stored in (once, as_stored(once, additions)):  # the API server sets defaults again whenever it reads a pod
        assert {name: str(amount) for name, amount in effective(stored, "requests").items()} == case.want
