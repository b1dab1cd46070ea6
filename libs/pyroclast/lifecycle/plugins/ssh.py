"""The plugin `ssh`, with which the pods of a Job log in to each other without a password."""

from __future__ import annotations

import base64
from typing import Final

from pyroclast.api.jobplugins import BUILT_IN
from pyroclast.api.records import Job, Task
from pyroclast.api.types import SECRETS
from pyroclast.lifecycle.jobplugins import JobPlugin, Manifest, PluginObject
from pyroclast.lifecycle.plugins.containers import with_volume
from pyroclast.lifecycle.plugins.hosts import hosts

_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_HOME: Final = "/root/.ssh"
_OWNER_ONLY: Final = 0o600
_READABLE: Final = 0o644
_HIGHEST_PORT: Final = 65535
_KEY_BITS: Final = 2048
_EXPONENT: Final = 65537
_LONGEST: Final = 900_000
"""Most bytes of the configuration. The API server accepts Secrets of 1 MiB."""


class SshPlugin(JobPlugin):
    """A key pair of the Job or the user, and a client configuration with the hosts of all tasks.

    When the Job is scaled, the configuration changes for pods that start later. The keys stay.
    """

    name = "ssh"

    def objects(self, job: Job) -> list[PluginObject]:
        """Return the Secret with the ssh keys. A key pair is generated when the Secret is created."""
        body = {"data": {"config": _encoded(self._configuration(job).encode())}}
        private = self.flags.text("ssh-private-key")
        if private:
            given = _key_files(private.encode(), self.flags.text("ssh-public-key").encode())
            return [PluginObject(SECRETS, _secret(job), {"data": given | body["data"]}, follows=(("data", "config"),))]
        return [PluginObject(SECRETS, _secret(job), body, follows=(("data", "config"),), once=_fresh_keys)]

    def pod(self, job: Job, task: Task, index: int, manifest: Manifest) -> Manifest:  # noqa: ARG002
        """Mount the files with the ssh keys at the path where ssh reads them."""
        path = self.flags.text("ssh-key-file-path")
        secret = {
            "secretName": _secret(job),
            "items": [{"key": key, "path": f".ssh/{key}"} for key in _FILES],
            "defaultMode": _OWNER_ONLY if path == _HOME else _READABLE,
        }
        return with_volume(manifest, {"name": _secret(job), "secret": secret}, {"mountPath": path, "subPath": ".ssh"})

    def _configuration(self, job: Job) -> str:
        port = self.flags.number("ssh-port")
        if not 0 < port <= _HIGHEST_PORT:
            port = int(BUILT_IN["ssh"]["ssh-port"])
        stanzas = [_stanza(host, f"{host}.{subdomain}", port) for task in job.spec.tasks for host, subdomain in hosts(job, task)]
        if sum(map(len, stanzas)) > _LONGEST:
            stanzas = _by_task(job, port)
        if port != BUILT_IN["ssh"]["ssh-port"]:  # programs such as mpirun call a host by its address, which no stanza above names
            subdomains = dict.fromkeys(subdomain for task in job.spec.tasks for _, subdomain in hosts(job, task))
            stanzas += [f"Host *.{subdomain} *.{subdomain}.*\n  Port {port}\n" for subdomain in subdomains]
        return "".join(["StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n", *stanzas])


def _stanza(host: str, address: str, port: int) -> str:
    return f"Host {host}\n  HostName {address}\n  Port {port}\n"


def _by_task(job: Job, port: int) -> list[str]:
    """Return a configuration block for each task instead of each pod.

    ssh uses the first match, so longer task names are first. An address that contains a dot is complete.
    """
    found = []
    for task in sorted(job.spec.tasks, key=lambda task: -len(task.name)):
        of_task = hosts(job, task)
        host, subdomain = of_task[0] if of_task else ("", "")
        if len(of_task) > 1:
            found.append(_stanza(f"{job.metadata.name}-{task.name}-* !*.*", f"%h.{subdomain}", port))
        elif of_task:
            found.insert(0, _stanza(host, f"{host}.{subdomain}", port))
    return found


def _secret(job: Job) -> str:
    return f"{job.metadata.name}-ssh"


def _fresh_keys() -> Manifest:
    """Return the data of a Secret with a new RSA key pair, in formats that every ssh reads: PEM (PKCS#1) and one line."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow, and few Jobs need it
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {"data": _key_files(private, public + b"\n")}


def _key_files(private: bytes, public: bytes) -> dict[str, str]:
    return dict(zip(_FILES, map(_encoded, (private, public, public)), strict=False))


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
