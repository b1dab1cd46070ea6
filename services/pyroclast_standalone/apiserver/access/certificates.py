"""Creates the identity files of a data directory: certificates of the CA, server and administrator, and the token secret."""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pyroclast_standalone.apiserver.access.identity import Identity, write_private
from pyroclast_standalone.certificates import certificate, pem

_ADMIN: Final = ("kubernetes-admin", "system:masters")


def make(identity: Identity) -> None:
    """Create all files of `identity`, for a directory that lacks some of them."""
    directory = identity.directory
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    now = dt.datetime.now(dt.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = certificate("pyroclast-ca", "", key=authority_key, issuer=None, issuer_key=authority_key, now=now)
    write_private(identity.authority, authority.public_bytes(serialization.Encoding.PEM))
    write_private(directory / "ca.key", pem(authority_key))
    for (certificate_file, key_file), (name, organization) in (
        (identity.serving, ("kube-apiserver", "")),
        (identity.admin, _ADMIN),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate(name, organization, key=key, issuer=authority, issuer_key=authority_key, now=now)
        write_private(certificate_file, made.public_bytes(serialization.Encoding.PEM))
        write_private(key_file, pem(key))
    write_private(identity.token_secret, secrets.token_hex(32).encode())
