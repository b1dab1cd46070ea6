"""What cert-manager and openssl would make: keys, and certificates by the objects and commands in `certs/`."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pyroclast.runtime.fields import parse_duration
from tests.unit.chart import render

__all__ = ["by_own_ca", "certificate_of", "now", "read", "read_der"]

_USAGES = {"server auth": ExtendedKeyUsageOID.SERVER_AUTH, "client auth": ExtendedKeyUsageOID.CLIENT_AUTH}


def certificate_of(
    objects: Sequence[Mapping[str, Any]], name: str, *, now: datetime, authority: Mapping[str, bytes] | None = None
) -> dict[str, bytes]:
    """The data of the Secret that cert-manager writes for the Certificate `name`, by its Issuer and the Issuer's own Certificate.

    The keys are `tls.crt` (without the root), `tls.key` (for elliptic curves SEC 1, unless another encoding is asked for) and
    `ca.crt`. The Issuer's certificate is made anew, or is that of `authority`.
    """
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    spec = by_name["Certificate", name]["spec"]
    issuer = by_name["Issuer", spec["issuerRef"]["name"]]["spec"]
    (signer,) = (
        each["spec"]
        for each in objects
        if each["kind"] == "Certificate" and each["spec"]["secretName"] == issuer["ca"]["secretName"]
    )
    assert by_name["Issuer", signer["issuerRef"]["name"]]["spec"] == {"selfSigned": {}}
    signing = _KEYS[authority["ca.crt"]] if authority else ec.generate_private_key(ec.SECP256R1())
    root = read(authority["ca.crt"]) if authority else _sign(signer, signing.public_key(), None, signing, now)
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = _sign(spec, key.public_key(), root, signing, now)
    found = {
        "tls.crt": leaf.public_bytes(Encoding.PEM),
        "tls.key": key.private_bytes(Encoding.PEM, _format(spec), NoEncryption()),
        "ca.crt": root.public_bytes(Encoding.PEM),
    }
    _KEYS[found["ca.crt"]] = signing
    return found


_KEYS: dict[bytes, ec.EllipticCurvePrivateKey] = {}
"""The keys of authorities by their certificates, as the Secret of the Issuer would keep them."""


def read(pem: bytes) -> x509.Certificate:
    """The first certificate of a file."""
    return x509.load_pem_x509_certificate(pem)


def read_der(content: bytes) -> x509.Certificate:
    """A certificate as TLS hands it over."""
    return x509.load_der_x509_certificate(content)


def _key_of(authority: bytes) -> bytes:
    """The private key of an authority that `certificate_of` has made, as a file."""
    return _KEYS[authority].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def by_own_ca(folder: Path, authority: bytes) -> dict[str, bytes]:
    """The data of the Secret of an own CA: made in `folder` by the commands of the page on certificates."""
    block = re.search(
        r"## Own CA.*?```console\n(.*?)```", (render.ROOT / "docs" / "reference" / "certificates.md").read_text(), re.DOTALL
    )
    assert block is not None
    signing, _, keeping = block[1].partition("kubectl create namespace")
    (folder / "ca.crt").write_bytes(authority)
    (folder / "ca.key").write_bytes(_key_of(authority))
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-euc", signing], cwd=folder, check=True, capture_output=True, env=environment)
    return {name: (folder / name).read_bytes() for name in re.findall(r"--from-file=(\S+)", keeping)}


def now() -> datetime:
    """The moment from which a certificate that is made now is good."""
    return datetime.now(UTC) - timedelta(minutes=1)


def _format(spec: Mapping[str, Any]) -> PrivateFormat:
    return PrivateFormat.PKCS8 if spec["privateKey"].get("encoding") == "PKCS8" else PrivateFormat.TraditionalOpenSSL


def _sign(
    spec: Mapping[str, Any],
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Certificate | None,
    signing: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """A certificate as `spec` asks; without a common name its subject is empty, as cert-manager leaves it."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"])] if "commonName" in spec else [])
    is_authority = bool(spec.get("isCA"))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + parse_duration(spec["duration"]))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .add_extension(_key_usage(is_authority=is_authority), critical=True)
    )
    if "dnsNames" in spec:
        addresses = [x509.IPAddress(ip_address(each)) for each in spec.get("ipAddresses", ())]
        names = x509.SubjectAlternativeName([*(x509.DNSName(each) for each in spec["dnsNames"]), *addresses])
        builder = builder.add_extension(names, critical=not list(subject))
    if usages := [_USAGES[each] for each in spec.get("usages", ()) if each in _USAGES]:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(signing, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=is_authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
