"""The program `python -m pyroclast_job_controller.selftest`: tries that invalid objects are refused, and runs a gang of two pods.

`helm test` starts the program. The program is not part of the controller and only shares the controller's image.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from pyroclast.api import types
from pyroclast.api.enums import JobPhase
from pyroclast.kube.basics.errors import ApiError, KubeError, NotFound, TooManyRequests
from pyroclast.kube.credentials.config import ConfigError, load_config
from pyroclast.kube.http.client import Client, PatchKind

POLL_SECONDS: Final = 1.0
ENDED: Final = {JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED}


def manifest(name: str, namespace: str, image: str, scheduler: str) -> dict[str, Any]:
    """Return a Job of two pods that start together and end at once."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "one",
        "image": image,
        "command": ["sh", "-c", "echo one of two"],
        "securityContext": security,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    task = {
        "name": "pair",
        "replicas": 2,
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {
        "apiVersion": types.JOBS.api_version,
        "kind": types.JOBS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 2, "schedulerName": scheduler, "queue": "default", "tasks": [task]},
    }


_IMPOSSIBLE: Final = {
    "minAvailable": 2,
    "tasks": [{"name": "one", "replicas": 1, "template": {"spec": {"containers": [{"name": "one", "image": "a"}]}}}],
}
"""The spec of a Job that needs more pods than it has."""
INVALID: Final[Mapping[str, tuple[types.ResourceType, Mapping[str, Any]]]] = {
    "/jobs/validate": (types.JOBS, {"spec": _IMPOSSIBLE}),
    "/cronjobs/validate": (types.CRON_JOBS, {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": _IMPOSSIBLE}}}),
    "/jobtemplates/validate": (types.JOB_TEMPLATES, {"spec": _IMPOSSIBLE}),
    "/jobflows/validate": (types.JOB_FLOWS, {"spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]}}),
    "/hyperjobs/validate": (types.HYPER_JOBS, {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": _IMPOSSIBLE}]}}),
    "/podgroups/validate": (types.POD_GROUPS, {"spec": {"minMember": 1, "minResources": {"cpu": "-1"}}}),
    "/queues/validate": (types.QUEUES, {"spec": {"parent": "pyroclast-selftest-no-such-queue"}}),
    "/hypernodes/validate": (
        types.HYPER_NODES,
        {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}]}},
    ),
    "/commands/validate": (
        types.COMMANDS,
        {
            "action": "AbortJob",
            "target": {"apiVersion": types.JOBS.api_version, "kind": types.JOBS.kind, "name": "a", "uid": "a"},
        },
    ),
}
"""By the path of its webhook, an object that no webhook may accept, and that the definition of its kind does not refuse."""


async def accepted(client: Client, namespace: str, paths: Sequence[str]) -> list[str]:
    """Return the kinds whose invalid object is not refused by a webhook or an admission policy. Nothing is created."""
    kinds = []
    for kind, body in (INVALID[path] for path in paths if path in INVALID):
        meta = {"name": "pyroclast-selftest-invalid", **({"namespace": namespace} if kind.namespaced else {})}
        try:
            await client.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **body}, dry_run=True)
        except ApiError as error:
            if "cannot create resource" in error.message or error.status >= 500 or isinstance(error, NotFound | TooManyRequests):
                raise
        else:
            kinds.append(kind.kind)
    return kinds


async def bind_to_account(client: Client, pod: types.Key, account: str) -> None:
    """Make `pod`, in which this program runs, owned by its ServiceAccount: helm deletes the account, but no pod of a test."""
    found = await client.get(types.SERVICE_ACCOUNTS, types.Key(pod.namespace, account))
    kind = types.SERVICE_ACCOUNTS
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": account, "uid": found["metadata"]["uid"]}
    await client.patch(types.PODS, pod, {"metadata": {"ownerReferences": [owner]}}, PatchKind.MERGE)


async def run(client: Client, job: dict[str, Any], seconds: float) -> bool:
    """Submit `job`, print its progress, and delete it. Return whether it completed within `seconds`."""
    key = types.Key(job["metadata"]["namespace"], job["metadata"]["name"])
    await client.create(types.JOBS, job)
    phase, message = "", "nothing has looked at it yet: do the controllers run?"
    try:
        async with asyncio.timeout(seconds):
            while phase not in ENDED:
                await asyncio.sleep(POLL_SECONDS)
                state = ((await client.get(types.JOBS, key)).get("status") or {}).get("state") or {}
                if state.get("phase", "") != phase:
                    _say(sys.stdout, f"{key}  {state['phase']}  {state.get('message', '')}")
                phase, message = state.get("phase", ""), state.get("message", message)
    except TimeoutError:
        _say(sys.stderr, f"{key} is {phase or 'not looked at'} after {seconds:g} s: {message}")
    finally:
        try:
            await client.delete(types.JOBS, key, propagation="Background")
        except NotFound:
            _say(sys.stderr, f"{key} was deleted by somebody else")
    return phase == JobPhase.COMPLETED


def _say(out: TextIO, line: str) -> None:
    out.write(f"{line}\n")
    out.flush()


async def _main(namespace: str, image: str, scheduler: str, seconds: float, webhooks: str = "", *pod_and_account: str) -> int:
    name = f"pyroclast-test-{secrets.token_hex(3)}"
    try:
        async with Client(load_config(), user_agent="pyroclast-selftest") as client:
            if pod_and_account:
                pod, account = pod_and_account
                await bind_to_account(client, types.Key(*pod.split("/", 1)), account)
            if kinds := await accepted(client, namespace, webhooks.split(",")):
                _say(sys.stderr, f"an invalid object is accepted of {', '.join(kinds)}: is its webhook configuration installed?")
                return 1
            return 0 if await run(client, manifest(name, namespace, image, scheduler), seconds) else 1
    except (ConfigError, KubeError) as error:
        _say(sys.stderr, f"{namespace}/{name}: {error}")
        return 1


def main() -> int:
    """Run the test. The exit status is 0 when the gang completed."""
    if len(sys.argv) not in {5, 6, 8}:
        _say(sys.stderr, f"usage: {sys.argv[0]} NAMESPACE IMAGE SCHEDULER SECONDS [WEBHOOKS [NAMESPACE/POD ACCOUNT]]")
        return 2
    namespace, image, scheduler, seconds, *own = sys.argv[1:]
    return asyncio.run(_main(namespace, image, scheduler, float(seconds), *own))


if __name__ == "__main__":
    sys.exit(main())
