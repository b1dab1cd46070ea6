"""The Secret with the certificates: created when it is missing, renewed before they expire, and shared by all replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from pyroclast.api.types import SECRETS, Key
from pyroclast.kube.basics.errors import Conflict, KubeError
from pyroclast.kube.http.client import Client
from pyroclast.kube.http.response_records import found
from pyroclast_admission.certificates import issue
from pyroclast_admission.certificates.issue import Material, carry_out, from_secret, to_secret
from pyroclast_admission.certificates.plan import Policy, Step, next_step, next_time

log = structlog.get_logger()

LOOK_EVERY: Final = timedelta(seconds=10)
"""How often the Secret is read, to see changes by another replica or a person. Must be well below every overlap."""

RETRY_SECONDS: Final = 1.0
"""Pause after a failure. The client has already tried the request several times before it fails."""

ATTEMPTS: Final = 16
"""Most writes of the Secret in one reconcile when other replicas write too. Each conflict means that another replica progressed.
"""


class CertificateKeeper:
    """Keeps the Secret current and passes its material to `use`, before a bundle without a former authority is published.

    `known_since` returns the time since which every caller trusts an authority (PEM), None while some do not. A certificate of an
    authority is served only after that time, unless no other certificate exists.
    """

    def __init__(
        self,
        client: Client,
        key: Key,
        policy: Policy,
        *,
        now: Callable[[], datetime],
        use: Callable[[Material], None],
        known_since: Callable[[bytes], datetime | None],
    ) -> None:
        self._client, self._key, self._policy, self._now, self._use = client, key, policy, now, use
        self._known_since = known_since
        self._material: Material | None = None

    async def reconcile(self) -> Material:
        """Carry out the steps that are due on the Secret. Return the material that the Secret then holds.

        Replicas that reconcile at the same moment agree: the first write wins, and the other replicas read it.
        """
        for _ in range(ATTEMPTS):
            secret = await found(self._client.get(SECRETS, self._key))
            material = from_secret(secret) if secret is not None else self._material
            facts = issue.inspect(material) if material is not None else None
            known_since = self._known_since(material.authorities[0]) if material is not None else None
            step = next_step(facts, self._policy, self._now(), known_since)
            if step is Step.KEEP and secret is not None and material is not None:
                self._take(material)
                return material
            changed = carry_out(step, material, self._policy, self._now())
            try:
                await self._write(secret, changed)
            except Conflict:
                continue  # another replica wrote the Secret first: read what it wrote
            log.info("certificates.changed", secret=str(self._key), step=step.value, authorities=len(changed.authorities))
        raise TimeoutError(f"Secret {self._key} changes faster than it can be written")

    async def run(self) -> None:
        """Keep the Secret current until cancelled. While the API server does not answer, the present certificate stays in use."""
        while True:
            try:
                material = await self.reconcile()
            except (KubeError, TimeoutError) as error:
                log.warning("certificates.unreachable", secret=str(self._key), error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await asyncio.sleep(self._pause(material))

    def _take(self, material: Material) -> None:
        if material != self._material:
            self._material = material
            self._use(material)

    def _pause(self, material: Material) -> float:
        """Return the seconds until the next reconcile: early enough for the next step and to see the steps of other replicas."""
        pauses = [LOOK_EVERY, self._policy.overlap / 4]
        facts = issue.inspect(material)
        if facts is not None:
            pauses.append(next_time(facts, self._policy, self._known_since(material.authorities[0])) - self._now())
        return max(min(pauses).total_seconds(), 0.1)

    async def _write(self, secret: dict[str, Any] | None, material: Material) -> None:
        if secret is None:
            metadata = {"namespace": self._key.namespace, "name": self._key.name}
            body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": to_secret(material)}
            await self._client.create(SECRETS, body)
        else:
            await self._client.update(SECRETS, {**secret, "data": {**(secret.get("data") or {}), **to_secret(material)}})
