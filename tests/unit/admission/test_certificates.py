"""Certificates: how they are made, when they are replaced, and that replicas agree on them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast.api.types import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Key
from pyroclast.kube.credentials.certificates import Pem
from pyroclast.kube.credentials.config import load_config
from pyroclast.kube.http.client import Client
from pyroclast_admission.certificates import issue
from pyroclast_admission.certificates import keeper as certificates_keeper
from pyroclast_admission.certificates.inject import CONFIRM_SECONDS, BundleInjector, Configuration
from pyroclast_admission.certificates.issue import MAX_AUTHORITIES, Material, carry_out, from_secret, to_secret
from pyroclast_admission.certificates.keeper import CertificateKeeper
from pyroclast_admission.certificates.plan import Policy, Step, next_step, next_time
from tests.unit.ending import ended
from tests.unit.running import RunningServer, running_server

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = Policy(frozenset({"localhost", "127.0.0.1", "svc.ns.svc"}))
SECRET = Key("default", "certificates")


def start(now: datetime = NOW, policy: Policy = POLICY) -> Material:
    return carry_out(Step.START_OVER, None, policy, now)


def step_at(material: Material, now: datetime, policy: Policy = POLICY, known_since: datetime | None = NOW) -> Step:
    return next_step(issue.inspect(material), policy, now, known_since)


def test_new_certificates_are_consistent_and_kept() -> None:
    material = start()
    facts = issue.inspect(material)
    assert facts is not None
    assert facts.serving.names == POLICY.names
    assert facts.serving.signer == 0
    assert step_at(material, NOW) is Step.KEEP
    assert step_at(material, NOW - timedelta(minutes=50)) is Step.KEEP  # a replica whose clock is behind
    assert from_secret({"data": to_secret(material)}) == material


def test_a_serving_certificate_is_renewed_by_the_same_authority() -> None:
    material = start()
    later = NOW + POLICY.validity * 2 / 3
    assert step_at(material, later - timedelta(minutes=1)) is Step.KEEP
    assert step_at(material, later + timedelta(minutes=1)) is Step.ISSUE
    renewed = carry_out(Step.ISSUE, material, POLICY, later)
    assert renewed.authorities == material.authorities
    assert renewed.certificate != material.certificate
    assert step_at(renewed, later) is Step.KEEP


def test_a_certificate_authority_is_replaced_in_three_steps_with_an_overlap() -> None:
    policy = replace(POLICY, validity=POLICY.authority_validity)
    material, now = start(policy=policy), NOW + policy.authority_validity * 2 / 3 + timedelta(minutes=1)
    steps = []
    for _ in range(3):
        step = step_at(material, now, policy)
        steps.append(step)
        material = carry_out(step, material, policy, now)
        assert step_at(material, now, policy) is Step.KEEP  # nothing more before all have seen it
        now += policy.overlap + timedelta(seconds=1)
    assert steps == [Step.ADD_AUTHORITY, Step.ISSUE, Step.DROP_AUTHORITIES]
    assert step_at(material, now, policy) is Step.KEEP


def test_a_new_authority_waits_for_known_trust_until_the_old_certificate_expires() -> None:
    policy = replace(POLICY, validity=POLICY.authority_validity)
    now = NOW + policy.authority_validity * 2 / 3 + timedelta(minutes=1)
    material = carry_out(Step.ADD_AUTHORITY, start(policy=policy), policy, now)
    now += timedelta(days=1)
    assert step_at(material, now, policy, known_since=None) is Step.KEEP
    facts = issue.inspect(material)
    assert facts is not None
    assert next_time(facts, policy, None) > now
    assert step_at(material, now, policy, known_since=now) is Step.KEEP  # just now: callers take it up in a moment
    assert next_time(facts, policy, now) == now + policy.overlap
    assert step_at(material, now + policy.overlap, policy, known_since=now) is Step.ISSUE
    end = facts.serving.span.end
    assert step_at(material, end, policy, known_since=None) is Step.ISSUE  # there is no other any more


def foreign(kind: str) -> Material:
    """What somebody else made with other tools."""
    key: Any = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "dsa": lambda: dsa.generate_private_key(2048),
    }.get(kind, lambda: ec.generate_private_key(ec.SECP384R1()))()
    algorithm = None if kind == "ed25519" else hashes.SHA256()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    serving_key = ec.generate_private_key(ec.SECP256R1())

    def certificate(subject: x509.Name, public: Any, *extensions: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(name).public_key(public).serial_number(7)
        builder = builder.not_valid_before(NOW - timedelta(days=1)).not_valid_after(NOW + timedelta(days=300))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)

    def pem(private: Any) -> bytes:
        form, how = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return private.private_bytes(serialization.Encoding.PEM, form, how)

    constraints = [] if kind == "no authority" else [x509.BasicConstraints(ca=True, path_length=None)]
    names = [] if kind == "no names" else [x509.SubjectAlternativeName([x509.DNSName("old.example")])]
    return Material(
        (certificate(name, key.public_key(), *constraints),),
        pem(key),
        certificate(x509.Name([]), serving_key.public_key(), *names),
        pem(serving_key),
    )


@pytest.mark.parametrize("kind", ["rsa", "ed25519", "no names"])
def test_an_authority_made_by_another_tool_issues_the_serving_certificate(kind: str) -> None:
    material = foreign(kind)
    assert step_at(material, NOW) is Step.ISSUE  # for our names
    issued = carry_out(Step.ISSUE, material, POLICY, NOW)
    assert issued.authorities == material.authorities
    assert step_at(issued, NOW) is Step.KEEP


@pytest.mark.parametrize("kind", ["dsa", "no authority"])
def test_an_authority_that_cannot_sign_is_replaced(kind: str) -> None:
    assert step_at(foreign(kind), NOW) is Step.START_OVER


@pytest.mark.parametrize(
    "broken",
    [
        Material((b"x",), b"", b"", b""),
        replace(start(), key=start().key),
        replace(start(), authorities=start().authorities),
        replace(start(), certificate=b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"),
    ],
    ids=["no certificates", "another key", "another authority", "no certificate"],
)
def test_inconsistent_certificates_are_replaced(broken: Material) -> None:
    assert issue.inspect(broken) is None
    assert step_at(broken, NOW) is Step.START_OVER


def test_an_expired_authority_is_replaced() -> None:
    assert step_at(start(), NOW + POLICY.authority_validity) is Step.START_OVER


def test_an_added_dns_name_issues_a_new_serving_certificate() -> None:
    assert step_at(start(), NOW, replace(POLICY, names=POLICY.names | {"new.example.org"})) is Step.ISSUE


NAMES = ("tls.crt", "tls.key", "ca.crt", "ca.key")


@pytest.mark.parametrize("secret", [{}, {"data": None}, {"data": {"tls.crt": "!"}}, {"data": dict.fromkeys(NAMES, "")}])
def test_a_secret_without_valid_certificates_yields_no_material(secret: dict[str, object]) -> None:
    assert from_secret(secret) is None


@settings(max_examples=25)
@given(st.lists(st.floats(0.01, 3.0), min_size=5, max_size=40))
def test_every_recent_ca_bundle_trusts_every_recent_serving_certificate(pauses: list[float]) -> None:
    """Callers may trust any bundle, replicas may serve any certificate, of the last `overlap`; all pairs must fit."""
    policy = replace(POLICY, authority_validity=timedelta(hours=3), validity=timedelta(hours=1), overlap=timedelta(minutes=2))
    now = NOW
    material = start(now, policy)
    history = [(now, material)]
    for pause in pauses:
        now += pause * policy.overlap
        for _ in range(4):  # a replica that comes late does all that is due, each step after it has settled
            step = step_at(material, now, policy)
            assert step is not Step.START_OVER
            if step is Step.KEEP:
                break
            material = carry_out(step, material, policy, now)
            history.append((now, material))
        recent = [old for when, old in history if when > now - policy.overlap / 2]
        before = [old for when, old in history if when <= now - policy.overlap / 2][-1:]
        for served in [*before, *recent]:
            for trusted in [*before, *recent]:
                assert issue.inspect(replace(material, authorities=trusted.authorities, **_pair(served, trusted))) is not None
        assert len(material.authorities) <= MAX_AUTHORITIES
    facts = issue.inspect(material)
    assert facts is not None
    assert next_time(facts, policy, NOW) > now - policy.overlap


def _pair(served: Material, trusted: Material) -> dict[str, bytes]:
    return {"certificate": served.certificate, "key": served.key, "authority_key": trusted.authority_key}


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with running_server() as running:
        yield running


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[Client]:
    async with Client(load_config(str(server.kubeconfig))) as client:
        yield client


def keeper(client: Client, used: list[Material], policy: Policy = POLICY, now: datetime = NOW) -> CertificateKeeper:
    return CertificateKeeper(client, SECRET, policy, now=lambda: now, use=used.append, known_since=lambda _: NOW)


async def test_replicas_that_start_together_use_the_same_certificates(client: Client) -> None:
    used: list[list[Material]] = [[] for _ in range(4)]
    materials = await asyncio.gather(*(keeper(client, each).reconcile() for each in used))
    assert len(set(materials)) == 1
    assert [each[-1] for each in used] == materials


async def test_a_deleted_secret_is_recreated_from_the_certificates_in_use(client: Client) -> None:
    used: list[Material] = []
    replica = keeper(client, used)
    first = await replica.reconcile()
    await client.delete(SECRETS, SECRET)
    assert await replica.reconcile() == first
    assert used == [first]


async def test_an_invalid_secret_gets_new_certificates_and_keeps_its_foreign_entries(client: Client) -> None:
    body = {"metadata": {"name": SECRET.name, "namespace": SECRET.namespace}, "data": {"tls.crt": "eA==", "note": "eA=="}}
    await client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", **body})
    material = await keeper(client, []).reconcile()
    assert step_at(material, NOW) is Step.KEEP
    secret = await client.get(SECRETS, SECRET)
    assert secret["data"]["note"] == "eA=="
    assert from_secret(secret) == material


async def test_certificates_in_use_are_kept_while_the_secret_cannot_be_read(
    server: RunningServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates_keeper, "RETRY_SECONDS", 0.01)
    used: list[Material] = []
    replica = keeper(client, used)
    first = await replica.reconcile()
    server.forget_requests()
    for _ in range(3):
        server.fail_next("get", "secrets", 403)
    task = asyncio.ensure_future(replica.run())
    async with asyncio.timeout(60):
        while server.requests()["get", "secrets"] < 4:
            assert not task.done()
            await asyncio.sleep(0.01)
    await ended(task)
    assert used == [first]


def configuration(kind: str, name: str) -> dict[str, object]:
    hook = {
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [],
    }
    webhooks = [{"name": f"{part}.example.org", **hook} for part in ("a", "b")]
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": webhooks}


@contextlib.asynccontextmanager
async def running(injector: BundleInjector) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(informer.run()) for informer in injector.informers.values()]
    tasks.append(asyncio.ensure_future(injector.run()))
    try:
        yield
    finally:
        await ended(*tasks)


class ConfigurationsCache:
    """What kube-apiserver knows of webhook configurations: made when it is asked for, kept until the configuration changes.

    `overtaken` looks as one does that began before the newest change: its result is stored after the change was noted.
    """

    def __init__(self) -> None:
        self._objects: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self.made: dict[str, str] = {}

    def change(self, name: str, bundle: str) -> None:
        self._before[name] = self._objects.get(name, "")
        self._objects[name] = bundle
        self.made.pop(name, None)

    def overtaken(self, name: str) -> None:
        self.made[name] = self._before[name]


async def test_a_second_write_of_the_ca_bundle_corrects_a_stale_cache_of_kube_apiserver(client: Client) -> None:
    """Each configuration is written twice, so that kube-apiserver ends with the bundle though each write meets a look."""
    names = [f"ours-{i}" for i in range(13)]
    injector = BundleInjector(client, {VALIDATING_WEBHOOKS: names})
    for name in names:
        await client.create(VALIDATING_WEBHOOKS, configuration("ValidatingWebhookConfiguration", name))
    server, written = ConfigurationsCache(), dict[str, list[float]]()

    def note(_old: Configuration | None, new: Configuration | None) -> None:
        assert new is not None
        server.change(new.metadata.name, new.webhooks[0].client_config.ca_bundle)
        server.overtaken(new.metadata.name)
        written.setdefault(new.metadata.name, []).append(asyncio.get_running_loop().time())

    for informer in injector.informers.values():
        informer.on_change(note)
    bundle = start().bundle
    async with running(injector):
        injector.trust(bundle)
        async with asyncio.timeout(60):
            while set(server.made.values()) != {base64.b64encode(bundle).decode()}:
                await asyncio.sleep(0.01)
        await asyncio.sleep(2 * CONFIRM_SECONDS)
    for times in written.values():
        listed, brought, confirmed = times  # and then never again
        assert listed <= brought <= confirmed - CONFIRM_SECONDS / 2


async def test_the_ca_bundle_is_written_to_webhook_configurations_and_restored_when_lost(client: Client) -> None:
    names = {MUTATING_WEBHOOKS: ["ours-mutate"], VALIDATING_WEBHOOKS: ["ours-validate", "not-installed"]}
    injector = BundleInjector(client, names)
    await client.create(MUTATING_WEBHOOKS, configuration("MutatingWebhookConfiguration", "ours-mutate"))
    await client.create(VALIDATING_WEBHOOKS, configuration("ValidatingWebhookConfiguration", "somebody-elses"))

    async def bundles(kind: object, name: str) -> list[str]:
        found = await client.get(kind, Key("", name))
        return [base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode() for hook in found["webhooks"]]

    async def until_told() -> None:
        async with asyncio.timeout(60):
            while injector.pending() is not None:
                await asyncio.sleep(0.01)

    async with running(injector):
        assert injector.pending() == "no certificates yet"
        material = start()
        bundle = material.bundle
        injector.trust(bundle)
        await until_told()
        assert injector.missing() == ["ours-validate", "not-installed"]
        assert injector.known_since(material.authorities[0]) is None  # kube-apiserver may still have missed it
        async with asyncio.timeout(60):
            while injector.known_since(material.authorities[0]) is None:
                await asyncio.sleep(0.01)
        assert injector.known_since(start().authorities[0]) is None
        assert await bundles(MUTATING_WEBHOOKS, "ours-mutate") == [bundle.decode()] * 2
        await client.create(VALIDATING_WEBHOOKS, configuration("ValidatingWebhookConfiguration", "ours-validate"))
        found = await client.get(MUTATING_WEBHOOKS, Key("", "ours-mutate"))
        found["webhooks"] = configuration("", "")["webhooks"]
        await client.update(MUTATING_WEBHOOKS, found)
        async with asyncio.timeout(60):
            while await bundles(VALIDATING_WEBHOOKS, "ours-validate") != [bundle.decode()] * 2:
                await asyncio.sleep(0.01)
            while await bundles(MUTATING_WEBHOOKS, "ours-mutate") != [bundle.decode()] * 2:
                await asyncio.sleep(0.01)
        assert await bundles(VALIDATING_WEBHOOKS, "somebody-elses") == ["", ""]


def test_a_tls_client_loads_all_authorities_of_the_ca_bundle() -> None:
    material = carry_out(Step.ADD_AUTHORITY, start(), POLICY, NOW)
    context = ssl.create_default_context(cadata=material.bundle.decode())
    assert len(context.get_ca_certs()) >= 2


def test_private_keys_are_not_in_the_repr() -> None:
    material = start()
    assert "PRIVATE" not in repr(material)
    assert "PRIVATE" not in repr(Pem(data=material.key))
