"""The data directory of a control plane: its files and their lock; whether its server answers; and the error of the command."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed
from pyroclast.kube.http.client import Client


class CommandError(Exception):
    """Ends the command with exit status `status` and this message as the only line on standard error."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class DataDirectory:
    """Paths below `root`. Nothing is created before `prepare`.

    Attributes:
        kubeconfig: the administrator's kubeconfig of the embedded control plane.
        logs: the folder with a `NAME.log` for each process.
        accounts: the folder with a `NAME.kubeconfig` and `NAME.token` for each service.
        addresses: the file with the address of each service for `/healthz`, `/readyz`, `/livez` and `/metrics`, as JSON.
        lock_file: the file that is locked while a control plane runs here, with the process id of the holder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kubeconfig, self.logs, self.accounts = root / "kubeconfig", root / "logs", root / "accounts"
        self.addresses, self.lock_file = root / "addresses.json", root / "pyroclast.lock"

    @classmethod
    def default(cls) -> DataDirectory:
        """Return `$XDG_DATA_HOME/pyroclast`, by default `~/.local/share/pyroclast`."""
        home = os.environ.get("XDG_DATA_HOME")
        return cls((Path(home) if home else Path.home() / ".local/share") / "pyroclast")

    @classmethod
    def of_cluster(cls, kubeconfig: Path) -> DataDirectory:
        """Return the directory for logs and credentials of services that use the existing cluster of `kubeconfig`."""
        digest = hashlib.sha256(str(kubeconfig.resolve()).encode()).hexdigest()[:12]
        return cls(cls.default().root / "clusters" / digest)

    def prepare(self) -> None:
        """Create the directory. Only its owner can read it."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.logs, self.accounts):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise CommandError(f"--data-dir {self.root}: {error.strerror}; give a directory that can be written") from error
        if not os.access(self.root, os.W_OK):
            raise CommandError(f"--data-dir {self.root}: cannot be written; give a directory that can be written")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of this directory."""
        with self.lock_file.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise self._taken(self.running_pid()) from None
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield
            file.seek(0)
            file.truncate()

    def check_idle(self) -> None:
        """Check that no control plane runs here."""
        if (pid := self.running_pid()) is not None:
            raise self._taken(pid)

    def _taken(self, pid: int | None) -> CommandError:
        return CommandError(
            f"--data-dir {self.root}: a control plane runs here already (pid {pid}); "
            "stop it with `pyroclast down`, or give another directory"
        )

    def running_pid(self) -> int | None:
        """Return the process id of the control plane that runs here. None when none runs."""
        if not self.lock_file.exists():
            return None
        with self.lock_file.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read().strip()
                return int(text) if text.isdigit() else None
            return None


async def require_answer(client: Client, source: str) -> None:
    """Send one request. Any answer is enough. `source` is the option that named the server."""
    try:
        await client.request("GET", "/readyz", once=True)
    except ApiError:
        return
    except ConnectionFailed as error:
        why = "" if not error.sent else f" ({error.message})"
        raise CommandError(
            f"{source}: no API server answers at {client.config.server}{why}; start it, or give another file"
        ) from error
