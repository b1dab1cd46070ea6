"""`vcctl wait --notify`: one message to the targets in the user's own file, which nobody else may read."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from pyroclast_cli import programs
from tests.unit.cli.golden.server import serving

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # of apprise


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[str]]]:
    """The URL of a webhook, and the titles of the messages that it took."""
    titles: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            titles.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["title"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"json://127.0.0.1:{server.server_address[1]}", titles
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "status", "title"),
    [("big", 0, "Job team/big is Running"), ("none", 1, "Job team/none does not exist, or was deleted")],
    ids=["reached", "failed"],
)
def test_wait_sends_one_message_at_its_end_whatever_that_is(webhook, tmp_path, monkeypatch, name, status, title):
    url, titles = webhook
    file = tmp_path / "notify"
    file.write_text(f"# mine\n{url}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PYROCLAST_NOTIFY_FILE", str(file))
    with serving() as server:
        assert programs.vcctl(["wait", name, "-n", "team", "--for", "Running", "--notify", "-s", server]) == status
    assert titles == [title]


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (None, 0, "No such file or directory; write one URL in a line"),
        ("json://hidden@a\n", 0o644, "others may read"),
        ("exec://hidden\n", 0o600, "target 1 is no URL of mail, a webhook or a chat that is known: it begins with exec:"),
        ("# nothing\n", 0o600, "there is no target"),
    ],
    ids=["no file", "readable", "kind", "empty"],
)
def test_wait_says_before_it_waits_that_nothing_can_be_sent(tmp_path, monkeypatch, capsys, content, mode, message):
    file = tmp_path / "notify"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    monkeypatch.setenv("PYROCLAST_NOTIFY_FILE", str(file))
    with serving() as server:
        assert programs.vcctl(["wait", "big", "-n", "team", "--notify", "-s", server]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "hidden" not in told
