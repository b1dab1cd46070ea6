"""Reads the facts by which the health of the services is judged, within the rights of the reader: see `pyroclast.views.health`.

A source that refuses or is silent is a text that says why. Services report on their Leases, so that most facts cost one list.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson

from pyroclast.api.schedulers import NOT_OF_NODES
from pyroclast.api.types import COMMANDS, DEPLOYMENTS, EVENTS, JOBS, LEASES, MUTATING_WEBHOOKS, NODES, PODS, VALIDATING_WEBHOOKS
from pyroclast.kube.basics.deadline import Deadline
from pyroclast.kube.basics.errors import ApiError, Forbidden, KubeError

if TYPE_CHECKING:
    from pyroclast.kube.http.client import Client

SECONDS: Final = 3.0
"""How long each source may take."""
PROBE_SECONDS: Final = 2.0
MOST_AWAY: Final = 20
"""Nodes that are away of which the pods are read."""
OURS: Final = "app.kubernetes.io/name=pyroclast"
PREDECESSORS: Final = "app in (volcano-scheduler,volcano-controller,volcano-admission),app.kubernetes.io/name!=pyroclast"

Facts = dict[str, Any]


async def read_health(client: Client, *, nodes: Sequence[Mapping[str, Any]] | None = None, may_create: bool) -> Facts:
    """Return what each source says. `nodes`: if the reader has them already.

    `may_create`: whether the API server is asked to review a Job, without creating it. Otherwise the webhooks are called.
    """
    began = time.monotonic()
    leases = await _read(client.list(LEASES, field_selector=NOT_OF_NODES))
    facts: Facts = {"now": client.now(), "seconds": time.monotonic() - began, "leases": leases}
    wanted: dict[str, Awaitable[Any]] = {
        "evictions": _read(client.list(EVENTS, field_selector="reason=Evict")),
        "deployments": _read(client.list(DEPLOYMENTS, label_selector=PREDECESSORS)),
        "commands": _read(client.list(COMMANDS)),
        "validating": _read(client.list(VALIDATING_WEBHOOKS, label_selector=OURS)),
        "mutating": _read(client.list(MUTATING_WEBHOOKS, label_selector=OURS)),
    }
    if nodes is None:
        wanted["nodes"] = _read(client.list(NODES))
    facts |= dict(zip(wanted, await asyncio.gather(*wanted.values()), strict=True), **({} if nodes is None else {"nodes": nodes}))
    configurations = [each for kind in ("validating", "mutating") if not isinstance(facts[kind], str) for each in facts[kind]]
    facts["probes"] = await _probes(configurations)
    facts["review"] = await _reviewed(client) if may_create and configurations else None
    away = [] if isinstance(facts["nodes"], str) else [each["metadata"]["name"] for each in facts["nodes"] if not _is_ready(each)]
    listed = await asyncio.gather(
        *(_read(client.list(PODS, field_selector=f"spec.nodeName={name}")) for name in away[:MOST_AWAY])
    )
    facts["pods"] = next((each for each in listed if isinstance(each, str)), None) or [pod for each in listed for pod in each]
    return facts


async def _read(answer: Awaitable[tuple[list[dict[str, Any]], str]]) -> list[dict[str, Any]] | str:
    try:
        async with asyncio.timeout(SECONDS):
            return (await answer)[0]
    except TimeoutError:
        return f"the API server gave no answer in {SECONDS:g} s"
    except Forbidden:
        return "you may not list them"
    except KubeError as error:
        return " ".join(str(error).split())


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


async def _reviewed(client: Client) -> str:
    """Return why the webhooks for Jobs do not answer the API server; empty if they do, or if the question is not allowed."""
    container = {"name": "a", "image": "a"}
    task = {"name": "a", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    metadata = {"generateName": "vcctl-doctor-", "namespace": client.config.namespace}
    body = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": {"tasks": [task]}}
    path, query = JOBS.path(client.config.namespace), {"dryRun": "All"}
    try:
        await client.request("POST", path, query=query, body=orjson.dumps(body), once=True, deadline=Deadline.after(SECONDS))
    except ApiError as error:
        return error.message if "failed calling webhook" in error.message else ""
    except KubeError as error:
        return str(error)
    return ""


async def _probes(configurations: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, float | None]]:
    """Return for each address of a webhook why it does not answer, and when its certificate expires.

    An address in the cluster whose name is not known here is left out.
    """
    bundles: dict[tuple[str, int], str] = {}
    for each in configurations:
        for webhook in each.get("webhooks") or ():
            of = webhook.get("clientConfig") or {}
            service = of.get("service") or {}
            url = of.get("url") or f"https://{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}"
            split = urlsplit(url)
            if split.hostname:
                bundles[split.hostname, split.port or 443] = str(of.get("caBundle") or "")
    answers = await asyncio.gather(*(_probe(host, port, bundle) for (host, port), bundle in bundles.items()))
    return {f"{host}:{port}": answer for (host, port), answer in zip(bundles, answers, strict=True) if answer is not None}


async def _probe(host: str, port: int, bundle: str) -> tuple[str, float | None] | None:
    """Return as `_probes` does; None if the name is not known here."""
    try:
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            ends = (writer.get_extra_info("peercert") or {}).get("notAfter")
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    except TimeoutError:
        return f"no answer in {PROBE_SECONDS:g} s", None
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not valid: {error.verify_message}", None
    except OSError as error:
        is_unknown = isinstance(error, socket.gaierror) and host.endswith(".svc")
        return None if is_unknown else (str(error) or type(error).__name__, None)
    except ValueError as error:
        return f"its CA bundle is not valid: {error}", None
    return "", ssl.cert_time_to_seconds(ends) if ends else None
