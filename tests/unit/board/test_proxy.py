"""A proxy that logs users in and names them in headers: believed by its certificate, and by nothing else."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from pyroclast.runtime.listener import Listener
from pyroclast_board.serving import scheduler, server
from pyroclast_board.serving.scheduler import Peers
from pyroclast_board.serving.viewers import RequestHeaders, forwarded_address
from pyroclast_board.settings import BoardSettings
from tests.control_plane.certificates import Certificates
from tests.unit.logs import captured

from .conftest import Board, fill, running_board

ADMIN = {"X-Remote-User": "ann", "X-Remote-Group": "system:masters"}


class Proxied(Board):
    """A board behind a proxy, asked with different certificates."""

    certificates: Certificates
    foreign: Certificates

    async def ask(self, path: str, certificate: str = "", *, method: str = "GET", **given: Any) -> tuple[int, str]:
        """Status and text; `certificate` is the name of a pair, empty for none."""
        async with self.asking(path, certificate, method=method, **given) as answer:
            return answer.status, await answer.text()

    @contextlib.asynccontextmanager
    async def asking(
        self, path: str, certificate: str = "", *, method: str = "GET", **given: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer while it comes."""
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        if certificate:
            owner = self.foreign if certificate == "foreign" else self.certificates
            context.load_cert_chain(owner.certificate_of(certificate), owner.key_of(certificate))
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.request(method, f"{self.url}{path}", allow_redirects=False, **given) as answer,
        ):
            yield answer


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[Proxied]:
    certificates, foreign = Certificates(tmp_path / "ours"), Certificates(tmp_path / "theirs")
    certificates.server("board")
    for name in ("proxy", "visitor"):
        certificates.client(name, name)
    foreign.client("foreign", "proxy")
    settings = {
        "login": "proxy",
        "page_cert_file": str(certificates.certificate_of("board")),
        "page_key_file": str(certificates.key_of("board")),
        "requestheader_client_ca_file": str(certificates.ca),
        "requestheader_allowed_names": "proxy",
        "review_period": timedelta(seconds=0.5),
    }
    async with running_board(**settings) as board:
        found = Proxied(board.server, board.client, board.url)
        found.certificates, found.foreign, found.session = certificates, foreign, board.session
        yield found


async def test_user_headers_are_trusted_only_with_the_proxy_certificate(proxied: Proxied) -> None:
    uids = await fill(proxied)
    status, page = await proxied.ask("/jobs", "proxy", headers=ADMIN)
    assert (status, "ann" in page, "Log out" in page) == (200, True, False)
    for path in ("/", "/jobs", "/live/jobs", "/jobs.csv", f"/jobs/{uids['train']}", "/explain/queues/research", "/login"):
        for certificate in ("", "visitor"):
            assert (await proxied.ask(path, certificate, headers=ADMIN))[0] == 401, (path, certificate)
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await proxied.ask("/jobs", "foreign", headers=ADMIN)
    assert (await proxied.ask("/jobs", "proxy"))[0] == 401
    twice = [("X-Remote-User", "admin"), ("X-Remote-User", "ann")]
    assert (await proxied.ask("/jobs", "proxy", headers=twice))[0] == 401
    assert (await proxied.ask("/jobs", "proxy", method="POST", headers=ADMIN))[0] == 405
    assert (await proxied.ask("/login", "proxy", method="POST", headers=ADMIN))[0] == 405


async def test_proxy_user_without_rights_sees_no_jobs(proxied: Proxied) -> None:
    await fill(proxied)
    status, page = await proxied.ask("/jobs", "proxy", headers={"X-Remote-User": "stranger"})
    assert (status, "<b>0</b> Jobs" in page, "hidden-job" in page) == (200, True, False)


async def test_bearer_token_is_accepted_and_user_headers_are_ignored_without_a_certificate(proxied: Proxied) -> None:
    token = await proxied.token("member", "team")
    headers = {"Authorization": f"Bearer {token}", **ADMIN}
    status, page = await proxied.ask("/", headers=headers)
    assert (status, "serviceaccount:default:member" in page, "ann" in page) == (200, True, False)
    assert (await proxied.ask("/", headers={"Authorization": "Bearer forged", **ADMIN}))[0] == 401


async def test_live_stream_through_the_proxy_ends_without_a_reload_event(proxied: Proxied) -> None:
    async with proxied.asking("/live/jobs", "proxy", headers=ADMIN) as stream:
        rest = await stream.content.read()  # it ends by itself
    assert rest.startswith(b"retry")
    assert b"event: reload" not in rest


async def test_forwarded_address_is_logged_only_with_the_proxy_certificate(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"X-Forwarded-For": "127.0.0.9, 203.0.113.7"}
    for certificate, address in (("proxy", "203.0.113.7"), ("visitor", "127.0.0.1"), ("", "127.0.0.1")):
        logs = captured(monkeypatch, server)
        assert (await proxied.ask("/jobs", certificate, headers=headers))[0] == 401
        (line,) = [each for each in logs if each["event"] == "board.denied"]
        assert (line["address"], line["path"], line["status"]) == (address, "/jobs", 401)


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([("X-Remote-User", "ann")], {"username": "ann", "groups": ["system:authenticated"]}),
        (
            [("x-remote-user", " ann "), ("X-Remote-Group", "a, b"), ("X-Remote-Group", "c")],
            {"username": "ann", "groups": ["a", "b", "c", "system:authenticated"]},
        ),
        ([("X-Forwarded-Email", "ann@example.org")], {"username": "ann@example.org", "groups": ["system:authenticated"]}),
        ([("X-Remote-User", ""), ("X-Forwarded-Email", "a@b")], {"username": "a@b", "groups": ["system:authenticated"]}),
        ([("X-Remote-User", "ann"), ("X-Remote-User", "bob")], None),
        ([("X-Remote-User", "an\tn")], None),
        ([("X-Remote-User", "x" * 2000)], None),
        ([("X-Remote-Group", "a")], None),
        ([], None),
    ],
)
def test_request_headers_yield_one_valid_user_with_groups_or_none(
    headers: list[tuple[str, str]], user: dict[str, Any] | None
) -> None:
    found = RequestHeaders(("X-Remote-User", "X-Forwarded-Email"), ("X-Remote-Group",))
    assert found.user(headers) == user


def test_user_and_group_prefixes_are_added_except_to_system_authenticated() -> None:
    headers = RequestHeaders(("X-Remote-User",), ("X-Remote-Group",), username_prefix="oidc:", groups_prefix="oidc:")
    user = headers.user([*ADMIN.items()])
    assert user == {"username": "oidc:ann", "groups": ["oidc:system:masters", "system:authenticated"]}


def test_certificates_are_trusted_by_their_common_name() -> None:
    certificate = {"subject": ((("organizationName", "proxy"),), (("commonName", "edge"),))}
    anybody, edge, proxy = (RequestHeaders((), (), names) for names in ((), ("edge",), ("proxy",)))
    assert [each.trusts(certificate) for each in (anybody, edge, proxy)] == [True, True, False]
    assert [each.trusts(nothing) for each in (anybody, edge) for nothing in (None, {})] == [False] * 4


@pytest.mark.parametrize(
    ("value", "address"),
    [("203.0.113.7", "203.0.113.7"), ("evil, 2001:db8::1", "2001:db8::1"), ("203.0.113.7, unknown", None), ("", None)],
)
def test_forwarded_address_is_the_last_entry_of_the_header_if_valid(value: str, address: str | None) -> None:
    assert forwarded_address([("x-forwarded-for", value)]) == address


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"login": "proxy"}, "believes headers only of a client certificate"),
        ({"login": "proxy", "page_cert_file": "a", "page_key_file": "b"}, "--requestheader-client-ca-file"),
        ({"page_cert_file": "a"}, "only of use together"),
        ({"requestheader_client_ca_file": "a"}, "has no effect with --login=token"),
        (
            {
                "login": "proxy",
                "page_cert_file": "a",
                "page_key_file": "b",
                "requestheader_client_ca_file": "c",
                "requestheader_username_headers": "",
            },
            "name a header",
        ),
        ({"review_period": timedelta(minutes=6)}, "at most 5m"),
        ({"review_period": timedelta(0)}, "above 0"),
    ],
)
def test_insecure_or_inconsistent_login_settings_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        BoardSettings(**given)


PATH = "/explain/jobs/team/train"


class Replica:
    """Answers with one status, and counts."""

    def __init__(self) -> None:
        self.status, self.asked, self.token = 200, 0, ""
        self.listener = Listener(self.answer)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked, self.token = self.asked + 1, request.headers.get("Authorization", "")
        return web.json_response({"by": self.url}, status=self.status)


@pytest.fixture
async def replicas(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Replica]]:
    found = [Replica() for _ in range(3)]
    for each in found:
        await each.listener.start("127.0.0.1", 0)

    async def addresses(_url: str) -> list[str]:
        return [each.url for each in found]

    monkeypatch.setattr(scheduler, "_addresses", addresses)
    monkeypatch.setattr(scheduler, "RESOLVE_SECONDS", 0.0)
    yield found
    for each in found:
        await each.listener.stop()


async def test_leading_scheduler_replica_is_found_and_queried_first(replicas: list[Replica], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    first, second, third = replicas
    first.status, second.status = 503, 404
    async with Peers("http://scheduler", str(tmp_path / "token")) as asked:
        for _ in range(3):
            answer = await asked.ask(PATH, {"changes": "true"})
            assert answer is not None
            assert (answer[0], third.url in answer[1].decode()) == (200, True)
        assert (first.asked, second.asked, third.asked) == (1, 1, 3)
        assert third.token == "Bearer secret"
        first.status, third.status = 200, 503  # another takes over
        answer = await asked.ask(PATH, {})
        assert answer is not None
        assert (answer[0], first.url in answer[1].decode()) == (200, True)
        await first.listener.stop()
        replicas.remove(first)
        answer = await asked.ask(PATH, {})
        assert answer is not None
        assert answer[0] == 404, "no other knows it"
        second.status = third.status = 503
        assert await asked.ask(PATH, {}) is None
        second.status = 400
        answer = await asked.ask(PATH, {})
        assert answer is not None
        assert answer[0] == 400, "a wrong question is wrong everywhere"


async def test_http_scheduler_url_is_resolved_to_addresses_and_https_is_kept() -> None:
    assert "http://127.0.0.1:8080" in await scheduler._addresses("http://localhost:8080")
    assert await scheduler._addresses("http://[::1]:8080") == ["http://[::1]:8080"]
    assert await scheduler._addresses("https://scheduler:8080") == ["https://scheduler:8080"]
    assert await scheduler._addresses("http://no-such-name.invalid:8080") == []
