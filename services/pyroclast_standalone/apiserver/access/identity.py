"""The identity files of a data directory, and the kubeconfig of the administrator.

The module `certificates`, which creates those files, is separate, because a second start does not need its slow imports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


class Identity:
    """The identity files in a directory, which may be incomplete.

    Attributes:
        authority: the certificate of the CA.
        serving: the server's certificate and key.
        admin: the administrator's certificate and key.
        token_secret: the secret that signs the tokens of service accounts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority, self.token_secret = directory / "ca.crt", directory / "service-accounts.key"
        self.serving = directory / "apiserver.crt", directory / "apiserver.key"
        self.admin = directory / "admin.crt", directory / "admin.key"

    @property
    def is_complete(self) -> bool:
        """Whether all files exist."""
        return all(file.exists() for file in (self.authority, *self.serving, *self.admin, self.token_secret))


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` atomically. Only the owner can read the file."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def kubeconfig(name: str, cluster: Mapping[str, str | bool], user: Mapping[str, str], *, namespace: str) -> str:
    """Return a kubeconfig, as JSON, with the user `name`."""
    context = {"cluster": "pyroclast", "user": name, "namespace": namespace}  # some clients need a namespace
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "pyroclast", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "pyroclast", "context": context}],
        "current-context": "pyroclast",
    }
    return json.dumps(document, indent=2) + "\n"


def write_kubeconfig(path: Path, url: str, identity: Identity) -> None:
    """Write the administrator's kubeconfig for the server at `url`, with the paths of the certificates and the key."""
    certificate, key = identity.admin
    cluster = {"server": url, "certificate-authority": str(identity.authority.resolve())}
    user = {"client-certificate": str(certificate.resolve()), "client-key": str(key.resolve())}
    write_private(path, kubeconfig("kubernetes-admin", cluster, user, namespace="default").encode())
