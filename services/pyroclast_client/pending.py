"""Notes on this machine about Secrets without an owner, with which a later submission finds the Secrets of a client that died.

With the notes, users need no right to list Secrets.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from pyroclast.api.types import Key


class PendingSecrets:
    """The notes of this user about one cluster. Without a writable folder, there are no notes."""

    def __init__(self, server: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self._folder = Path(home) / "pyroclast" / "submissions"
        self._cluster = sha256(server.encode()).hexdigest()[:16]

    def note(self, secret: Key) -> None:
        """Note that a Secret is about to be created."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file(secret).touch()
        except OSError:  # as in a pod: whoever may list Secrets finds a remaining Secret by its label
            return

    def forget(self, secret: Key) -> None:
        """Remove the note on a Secret that has an owner or was deleted."""
        try:
            self._file(secret).unlink(missing_ok=True)
        except OSError:  # no note was written either
            return

    def of(self, namespace: str) -> list[Key]:
        """Return the keys of the Secrets in one namespace about which notes exist."""
        noted = self._folder.glob(f"{self._cluster}_{namespace}_*") if self._folder.is_dir() else ()
        return sorted(Key(namespace, path.name.rpartition("_")[2]) for path in noted)

    def _file(self, secret: Key) -> Path:
        return self._folder / f"{self._cluster}_{secret.namespace}_{secret.name}"  # Kubernetes names have no underscore
