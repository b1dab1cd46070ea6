"""`pyroclast takeover --check` against a served API server, with our own programs answering for themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyroclast.api.types import CONFIG_MAPS, DEPLOYMENTS, LEASES, SERVICES, VALIDATING_WEBHOOKS
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone.takeover.command import check
from tests.unit.running import running_server

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
"""


def deployment(program: str) -> dict[str, Any]:
    labels = {"app": program}
    container = {"name": "a", "image": f"example.org/volcanosh/{program}:v1.12", "args": ["--schedule-period=2s", "--odd=1"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": program, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def install(client: Client, configuration: str) -> None:
    for program in ("vc-scheduler", "vc-webhook-manager"):
        await client.create(DEPLOYMENTS, deployment(program), namespace="default")
    for name, selector in (("vc-scheduler-service", {"app": "vc-scheduler"}), ("other", {"app": "other"})):
        body = {"metadata": {"name": name}, "spec": {"selector": selector, "ports": [{"port": 8080}]}}
        await client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", **body}, namespace="default")
    await client.create(
        CONFIG_MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "volcano-scheduler-configmap"},
            "data": {"volcano-scheduler.conf": configuration},
        },
        namespace="default",
    )
    await client.create(
        LEASES,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "volcano"},
            "spec": {"holderIdentity": "host_1", "leaseDurationSeconds": 15},
        },
        namespace="default",
    )
    await client.create(
        VALIDATING_WEBHOOKS,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "volcano-admission-service-jobs-validate"},
            "webhooks": [
                {
                    "name": "validatejob.volcano.sh",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "clientConfig": {
                        "service": {"namespace": "default", "name": "volcano-admission-service"},
                        "caBundle": "Q0E=",
                    },
                    "rules": [
                        {
                            "apiGroups": ["batch.volcano.sh"],
                            "apiVersions": ["v1alpha1"],
                            "operations": ["CREATE"],
                            "resources": ["jobs"],
                        }
                    ],
                }
            ],
        },
    )


async def _checked(configuration: str | None) -> tuple[int, list[str]]:
    lines: list[str] = []
    async with running_server() as server:
        if configuration is not None:
            async with Client(load_config(str(server.kubeconfig))) as client:
                await install(client, configuration)
        return await check(Path(server.kubeconfig), lines.append), lines


async def test_takeover_check_reports_a_cluster_without_volcano() -> None:
    status, lines = await _checked(None)
    assert (status, lines[-1]) == (0, "No program of Volcano runs here: install Pyroclast by helm.")


async def test_takeover_check_lists_each_part_and_returns_0_when_nothing_is_lost() -> None:
    status, lines = await _checked(CONFIGURATION)
    parts = [line.split()[:3] for line in lines[1:-1]]
    assert parts == [
        ["Deployment", "default/vc-scheduler", "replaced"],
        ["flag", "default/vc-scheduler", "--odd"],
        ["flag", "default/vc-scheduler", "--schedule-period"],
        ["Deployment", "default/vc-webhook-manager", "replaced"],
        *(["flag", "default/vc-webhook-manager", flag] for flag in ("--odd", "--schedule-period")),
        ["ValidatingWebhookConfiguration", "volcano-admission-service-jobs-validate", "replaced"],
        ["Service", "default/vc-scheduler-service", "kept"],
        ["Lease", "default/volcano", "kept"],
        ["ConfigMap", "default/volcano-scheduler-configmap", "volcano-scheduler.conf"],
    ]
    assert (status, lines[-1]) == (0, "4 kept, 3 replaced, 3 ignored. Nothing would be lost.")


async def test_takeover_check_returns_1_and_reports_an_unknown_plugin_as_lost() -> None:
    status, lines = await _checked(CONFIGURATION + "  - name: magic\n")
    assert status == 1
    assert [line for line in lines if " lost " in line and "Failed to get plugin magic." in line]
