"""Notes on this machine of Secrets that no Job owns yet, so that a later submission finds those of a client that died.

Users need no right to list Secrets for it.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from pyroclast.api.types import Key

__all__ = ["PendingSecrets"]


class PendingSecrets:
    """The notes of this user about one cluster. Where no file can be written, there are none."""

    def __init__(self, server: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = Path(home) / "pyroclast" / "submissions"
        self._cluster = sha256(server.encode()).hexdigest()[:16]

    def note(self, secret: Key) -> None:
        """Write down that a Secret is about to be made."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file(secret).touch()
        except OSError:  # as in a pod: a Secret that is left is found by its label, by those who may list Secrets
            return

    def forget(self, secret: Key) -> None:
        """The Secret has an owner, or is gone."""
        try:
            self._file(secret).unlink(missing_ok=True)
        except OSError:  # nothing was written either
            return

    def of(self, namespace: str) -> list[Key]:
        """The Secrets that were noted, in one namespace."""
        noted = self._folder.glob(f"{self._cluster}_{namespace}_*") if self._folder.is_dir() else ()
        return sorted(Key(namespace, path.name.rpartition("_")[2]) for path in noted)

    def _file(self, secret: Key) -> Path:
        return self._folder / f"{self._cluster}_{secret.namespace}_{secret.name}"  # names of Kubernetes have no underscore
