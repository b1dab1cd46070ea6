"""The webhooks of the chart are asked about what is ours and about nothing else: calls are counted."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from pyroclast.api.types import MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS
from pyroclast.kube.basics.errors import Invalid
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone import installation
from tests.bench.admission_server import serving
from tests.unit.running import running_server

KINDS = {"MutatingWebhookConfiguration": MUTATING_WEBHOOKS, "ValidatingWebhookConfiguration": VALIDATING_WEBHOOKS}


def pod(name: str, scheduler: str = "default-scheduler", namespace: str = "team-a", **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "busybox"}]},
    }


async def test_pod_webhooks_are_called_only_for_pods_with_volcano_features() -> None:
    calls: Counter[str] = Counter()
    async with serving() as webhooks, running_server() as server, Client(load_config(str(server.kubeconfig))) as client:
        reply = webhooks.engine.reply

        async def counted(path: str, body: bytes) -> Any:
            calls[path] += 1
            return await reply(path, body)

        webhooks.engine.reply = counted  # type: ignore[method-assign]
        for manifest in installation.objects(f"https://localhost:{webhooks.port}"):
            if kind := KINDS.get(manifest["kind"]):
                for hook in manifest["webhooks"]:
                    hook["clientConfig"]["caBundle"] = base64.b64encode(webhooks.material.bundle).decode()
                await client.create(kind, manifest)
        for name in ("team-a",):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await server.settle()
        await client.create(PODS, pod("somebody-elses"))
        await client.create(PODS, pod("with-a-budget-of-another", **{"volcano.sh/jdb-min-available": "x"}))
        await client.create(PODS, pod("ours", "volcano"))
        await client.create(PODS, pod("of-the-system", "volcano", "kube-system", **{"volcano.sh/jdb-min-available": "x"}))
        assert calls == {}
        with pytest.raises(Invalid, match="strconv"):
            await client.create(PODS, pod("with-a-budget", "volcano", **{"volcano.sh/jdb-min-available": "x"}))
        assert calls == {"/pods/validate": 1}
        await client.create(PODS, pod("of-a-group", **{"volcano.sh/resource-group": "gpu"}))
        assert calls == {"/pods/validate": 1, "/pods/mutate": 1}
