"""Tokens of the services are renewed in time, also when the API server is away at that time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pyroclast_standalone import accounts
from pyroclast_standalone.accounts import Accounts
from tests.unit.kube.fault_server import FaultServer, Step, answer, status

TOKEN = "POST /api/v1/namespaces/pyroclast-system/serviceaccounts/a/token"


def token(text: str) -> Step:
    ends = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
    return answer(201, {"status": {"token": text, "expirationTimestamp": ends}})


async def test_token_renewal_is_logged_and_retried_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "LEAST_SECONDS", 0.001)
    async with FaultServer() as server, server.client() as client:
        server.on(TOKEN, token("first"), status(403, "Forbidden"), token("second"))
        lines: list[str] = []
        kept = Accounts(client, client.config, tmp_path, lines.append)
        await kept.issue("a")
        keeping = asyncio.create_task(kept.keep_fresh())
        async with asyncio.timeout(60):
            while (tmp_path / "a.token").read_text() != "second":
                assert not keeping.done()
                await asyncio.sleep(0.005)
        keeping.cancel()
        assert len(lines) == 1
        assert lines[0].startswith("the token of a was not renewed: ")
