"""The local account under which a pod runs: that of the user who submitted it.

Who that is cannot be forged. The API server writes the creator of each pod (`--record-creators`) and keeps it. For a pod that a
program of Pyroclast created, the submitter is the one of its Job, whom admission writes. So a user who copies the owner or the
annotations of another user's pod still is the creator of his own.
"""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyroclast.api import keys
from pyroclast.api.types import JOBS, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.http.client import Client
from pyroclast_standalone.nodes import records
from pyroclast_standalone.nodes.capacity import Refusal

ADMINISTRATOR: Final = "kubernetes-admin"
"""The user of the data directory's kubeconfig, which only the owner of the control plane can read. His pods run as this owner."""

_SERVICES: Final = "system:serviceaccount:pyroclast-system:"


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name the account."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def account_of(user: str) -> Account | str:
    """Return the account with the name of `user`, or why pods of this user cannot run."""
    try:
        found = pwd.getpwnam(user) if user != ADMINISTRATOR else pwd.getpwuid(os.geteuid())
    except (KeyError, ValueError):
        return f'user "{user}" submitted it, and this machine has no account of that name'
    if found.pw_uid == 0 and user != ADMINISTRATOR:
        return f'user "{user}" submitted it, and pods of users do not run with the rights of root'
    return Account(found.pw_name, found.pw_uid, found.pw_gid, tuple(os.getgrouplist(found.pw_name, found.pw_gid)), found.pw_dir)


@dataclass(frozen=True, slots=True)
class Submitters:
    """Finds and remembers the accounts of pods. `pods` is the folder with a folder for each pod, named by its UID."""

    client: Client
    pods: Path

    async def admit(self, pod: records.Pod) -> Refusal | None:
        """Write down the account of a new pod, before its first container starts. Return why the pod cannot run."""
        user = await self._submitter(pod)
        account = account_of(user) if user else "it does not say who submitted it: its Job is gone, or is older than admission"
        if isinstance(account, str):
            return Refusal("UnknownUser", f"Pod was rejected: {account}. Its administrator can add one: pyroclast user add NAME")
        file = self.pods / pod.metadata.uid / "account"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(user))
        return None

    def account(self, uid: str) -> Account | str:
        """Return the account of an admitted pod, or why it has none any more."""
        try:
            return account_of(json.loads((self.pods / uid / "account").read_bytes()))
        except FileNotFoundError:
            return "it was never admitted to run as the user who submitted it"

    async def _submitter(self, pod: records.Pod) -> str:
        """Return the user who submitted `pod`. Empty if that is not known."""
        creator = pod.metadata.annotations.get(keys.CREATED_BY, "")
        if not creator.startswith(_SERVICES):
            return creator
        owner = pod.metadata.controller
        if owner is None or owner.kind != JOBS.kind or not owner.api_version.startswith(f"{JOBS.group}/"):
            return ""
        try:
            job = (await self.client.get(JOBS, Key(pod.metadata.namespace, owner.name)))["metadata"]
        except NotFound:
            return ""
        return str((job.get("annotations") or {}).get(keys.SUBMITTED_BY, "")) if job["uid"] == owner.uid else ""
