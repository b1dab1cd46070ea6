"""Creates objects after their rules were applied in process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyroclast.api.types import COMMANDS, PODS, ResourceType
from pyroclast.kube.basics.errors import ApiError
from pyroclast.kube.http.client import Client
from pyroclast.rules import commands, pods
from pyroclast.rules.verdicts import Verdict
from pyroclast.runtime.settings import LeaderElectionSettings

PODS_MUTATE: Final = "/pods/mutate"
PODS_VALIDATE: Final = "/pods/validate"
COMMANDS_MUTATE: Final = "/commands/mutate"
COMMANDS_VALIDATE: Final = "/commands/validate"


def exempt_namespaces(settings: LeaderElectionSettings) -> tuple[str, str]:
    """Return the namespaces for which no webhook is called: the namespace of the release, and kube-system."""
    return settings.lease_namespace, "kube-system"


def known_paths(paths: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """Return `paths`, the webhooks whose rules this program has to apply itself.

    Raises ValueError: the program does not have the rules of one of the webhooks.
    """
    unknown = [path for path in paths if path not in known]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is applied by the admission service alone; leave it out, or name one of {', '.join(known)}"
        )
    return paths


def ensure_allowed(webhook: str, verdict: Verdict) -> None:
    """Do nothing for an allowed object.

    Raises ApiError: the object is denied; the same error that the API server makes of a denial by `webhook`.
    """
    if verdict.allowed:
        return
    status, reason = (422, "Invalid") if verdict.causes else (400, "")
    message = f'admission webhook "{webhook}" denied the request: {verdict.sentence}'
    raise ApiError.from_status(status, {"reason": reason, "message": message}, verb="POST")


@dataclass(frozen=True, slots=True)
class Creator:
    """Creates objects of a kind. Checks each with `rule` first, in place of the webhook; without `rule`, the API server calls
    `webhook`.

    `exempt`: namespaces for which no webhook is called. `asks`: returns whether an object needs the webhook in spite of `rule`,
    because only the webhook knows the configuration that the object asks for.
    """

    client: Client
    kind: ResourceType
    webhook: str
    rule: Callable[[Mapping[str, Any]], Verdict] | None
    exempt: Collection[str]
    asks: Callable[[Mapping[str, Any]], bool]

    async def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create the object; return the response of the API server."""
        if self.rule is None or manifest["metadata"]["namespace"] in self.exempt or self.asks(manifest):
            return await self.client.create(self.kind, manifest, dry_run=dry_run)
        ensure_allowed(self.webhook, self.rule(manifest))
        return await self.client.create(self.kind, manifest, dry_run=dry_run, field_manager=self.client.user_agent)


def pods_checked(client: Client, webhooks: Collection[str], exempt: Collection[str], schedulers: Collection[str]) -> Creator:
    """Return a Creator of pods, which the schedulers named by `schedulers` are to place."""

    def rule(pod: Mapping[str, Any]) -> Verdict:
        return pods.validate_create(pod, schedulers)

    checked = rule if PODS_VALIDATE in webhooks else None
    return Creator(
        client, PODS, "validatepod.volcano.sh", checked, exempt, pods.asks if PODS_MUTATE in webhooks else _asks_nothing
    )


def _asks_nothing(_: Mapping[str, Any]) -> bool:
    return False


def commands_checked(client: Client, webhooks: Collection[str], exempt: Collection[str]) -> Creator:
    """Return a Creator of Commands."""
    rule = commands.validate if COMMANDS_VALIDATE in webhooks else None
    return Creator(client, COMMANDS, "validatecommand.volcano.sh", rule, exempt, _asks_nothing)
