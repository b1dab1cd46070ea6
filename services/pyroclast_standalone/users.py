"""The command `pyroclast user`: users of this machine as users of the cluster, each with a namespace and a kubeconfig.

A user is known by a client certificate with the name of the account. Pods of the user's Jobs run under this account. The
certificate cannot be taken back, but `remove` takes the rights that it gives.
"""

from __future__ import annotations

import base64
import datetime as dt
import pwd
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyroclast.api.types import CONFIG_MAPS, NAMESPACES, Key
from pyroclast.kube.basics.errors import NotFound
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_standalone import installation
from pyroclast_standalone.apiserver.access.identity import Identity, kubeconfig
from pyroclast_standalone.directory import CommandError, DataDirectory
from pyroclast_standalone.manifests import Catalogue, Manifest, key_of

GROUP: Final = "pyroclast:users"
_USER: Final = "pyroclast.dev/user"
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RBAC: Final = "rbac.authorization.k8s.io"
_SERVERS: Final = [f"{installation.RELEASE}-{name}" for name in ("board", "recorder", "scheduler")]


async def add(directory: DataDirectory, name: str, say: Callable[[str], None]) -> int:
    """Give account `name` a namespace with the rights of `pyroclast-user`, and a kubeconfig in its home folder."""
    account = _account(name)
    if directory.running_pid() is None:
        raise CommandError(f"--data-dir {directory.root}: no control plane runs here; `pyroclast up --multi-user` starts one")
    async with Client(load_config(str(directory.kubeconfig))) as client:
        await _require_multi_user(client)
        with suppress(NotFound):
            found = (await client.get(NAMESPACES, Key("", name)))["metadata"]
            if (found.get("labels") or {}).get(_USER) != name:
                raise CommandError(f"namespace {name}: it exists and belongs to no user; delete it, or choose another account")
        await installation.apply(client, [*_shared(), *_own(name)])
    file = _write(account, _kubeconfig(directory, name))
    say(f"user {name}: namespace {name}, kubeconfig {file}")
    return 0


async def remove(directory: DataDirectory, name: str, say: Callable[[str], None]) -> int:
    """Take the rights of user `name` in its namespace. The namespace and its Jobs stay."""
    async with Client(load_config(str(directory.kubeconfig))) as client:
        catalogue = Catalogue(client)
        for manifest in reversed(_own(name)[1:]):
            kind = await catalogue.type_of(manifest)
            with suppress(NotFound):
                await client.delete(kind, key_of(manifest, kind))
    say(f"user {name} has no rights any more; `kubectl delete namespace {name}` deletes the Jobs too")
    return 0


def _account(name: str) -> pwd.struct_passwd:
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        raise CommandError(f"user {name}: this machine has no account of that name; `useradd -m {name}` makes one") from None
    if account.pw_uid == 0:
        raise CommandError(f"user {name}: root has the kubeconfig of the data directory already")
    if not _LABEL.fullmatch(name):
        raise CommandError(f"user {name}: its namespace cannot have this name: lower-case letters, digits and `-`, at most 63")
    return account


async def _require_multi_user(client: Client) -> None:
    key = Key(installation.NAMESPACE, f"{installation.RELEASE}-board")
    if ((await client.get(CONFIG_MAPS, key)).get("data") or {}).get("multiUser") != "true":
        raise CommandError(
            "this control plane runs the pods of all users under one account; start it with `pyroclast up --multi-user`, as root"
        )


def _shared() -> list[Manifest]:
    """Return what all users may read: the queues, the nodes, and where the servers are."""
    rules = [
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    ]
    servers = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": _SERVERS, "verbs": ["get"]}
    group = {"kind": "Group", "apiGroup": _RBAC, "name": GROUP}
    return [
        *installation.bound_role("Cluster", "pyroclast-machine-users", "", [group], rules),
        *installation.bound_role("", "pyroclast-machine-users", installation.NAMESPACE, [group], [servers]),
    ]


def _own(name: str) -> list[Manifest]:
    """Return the namespace and the rights of a user. The ServiceAccount is for tokens that only Pyroclast's servers take."""
    metadata = {"name": name, "namespace": name}
    user = {"kind": "User", "apiGroup": _RBAC, "name": name}
    account = {"kind": "ServiceAccount", "name": name, "namespace": name}
    token = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [name], "verbs": ["create"]}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"{installation.RELEASE}-user"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {_USER: name}}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{_RBAC}/v1", "kind": "RoleBinding", "metadata": metadata, "roleRef": role, "subjects": [user, account]},
        *installation.bound_role("", f"{name}-token", name, [user], [token]),
    ]


def _kubeconfig(directory: DataDirectory, name: str) -> str:
    from cryptography import x509  # noqa: PLC0415 - slow to import, and other commands need none
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    from pyroclast_standalone.certificates import certificate, pem  # noqa: PLC0415

    authority = Identity(directory.root).authority
    issuer = x509.load_pem_x509_certificate(authority.read_bytes())
    issuer_key = serialization.load_pem_private_key((directory.root / "ca.key").read_bytes(), None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CommandError(f"{directory.root / 'ca.key'}: it is no key that `pyroclast up` wrote")
    key = ec.generate_private_key(ec.SECP256R1())
    made = certificate(name, GROUP, key=key, issuer=issuer, issuer_key=issuer_key, now=dt.datetime.now(dt.UTC))
    server = load_config(str(directory.kubeconfig)).server
    parts = {"client-certificate-data": made.public_bytes(serialization.Encoding.PEM), "client-key-data": pem(key)}
    return kubeconfig(
        name,
        {"server": server, "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode()},
        {part: base64.b64encode(content).decode() for part, content in parts.items()},
        namespace=name,
    )


def _write(account: pwd.struct_passwd, text: str) -> str:
    """Write the kubeconfig with the rights of the account, because its folders may hold links. Return the path."""
    script = (
        "umask 077; mkdir -p .kube; file=.kube/config; "
        'if [ -e "$file" ] && ! grep -q \'"current-context": "pyroclast"\' "$file"; then file=.kube/pyroclast; fi; '
        'cat > "$file" && echo "$file"'
    )
    done = subprocess.run(  # noqa: S603 - a constant script
        ["/bin/sh", "-c", script],
        input=text,
        text=True,
        capture_output=True,
        check=False,
        cwd=account.pw_dir if Path(account.pw_dir).is_dir() else "/",
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
    )
    if done.returncode != 0:
        raise CommandError(f"user {account.pw_name}: {account.pw_dir}/.kube cannot be written: {done.stderr.strip()}")
    return f"{account.pw_dir}/{done.stdout.strip()}"
