"""Messages about transitions: one for each and target, also if the recorder is killed; and none of before they were on."""

from __future__ import annotations

import asyncio
import http.server
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyroclast_recorder import notices as module
from pyroclast_recorder.database.database import Database
from pyroclast_recorder.database.tables import jobs
from pyroclast_recorder.notices import AGAIN, Notifier, parse_rules

from .conftest import CLUSTER, ON_SQLITE, write

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # of apprise
NOW = 1_800_000_000


class Receiver(http.server.ThreadingHTTPServer):
    """A webhook, which takes messages or refuses them; `pause` is how long it takes to answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[dict[str, str]] = []
        self.status, self.pause = 200, 0.0

    @property
    def url(self) -> str:
        return f"json://user:hidden@127.0.0.1:{self.server_address[1]}/"

    @property
    def titles(self) -> list[str]:
        return [each["title"] for each in self.taken]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.status == 200:
            self.server.taken.append({"title": body["title"], "body": body["message"], "key": self.headers["Idempotency-Key"]})
        time.sleep(self.server.pause)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def row(name: str, **fields: Any) -> dict[str, Any]:
    known = {"namespace": "team", "name": name, "queue": "q", "submitted_by": "ann", "created": NOW - 100, "phase": "Pending"}
    return {"uid": f"u-{name}", **known, **fields}


def file_of(tmp_path: Path, receiver: Receiver, *rules: dict[str, Any]) -> Path:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"targets": {"hook": receiver.url}, "rules": [{"to": ["hook"], **rule} for rule in rules]}))
    return file


async def switched_on(database: Database, file: Path, at: int = NOW - 50) -> Notifier:
    first = Notifier(database, file, lambda: at)
    await round_of(first)
    return Notifier(database, file, lambda: NOW)


async def round_of(notifier: Notifier) -> None:
    notifier._load()
    await notifier.find()
    await notifier.send()


CASES = {
    "start": ({"started": NOW, "phase": "Running"}, "Job team/a has started", "waited 100s"),
    "end": ({"started": NOW - 40, "ended": NOW, "phase": "Completed"}, "Job team/a is Completed", "waited 60s, ran 40s"),
    "failure": (
        {"ended": NOW, "phase": "Failed", "reason": "MaxRetryReached", "message": "exit code 3"},
        "Job team/a is Failed",
        "MaxRetryReached: exit code 3",
    ),
    "longWait": ({"created": NOW - 45}, "Job team/a has waited for 45s", "vcctl why -n team a"),
}


@pytest.mark.parametrize("what", CASES)
async def test_transition_is_told_once_to_those_whom_a_rule_names(what, database, tmp_path, receiver):
    fields, title, text = CASES[what]
    rules = [
        {"on": [what], "user": "ann", "after": "40s"},
        {"on": [what], "queue": "other"},
        {"on": [what], "user": "bob", "after": "40s"},
    ]
    notifier = await switched_on(database, file_of(tmp_path, receiver, *rules))
    await write(database, [(jobs, 1, row("a", **fields)), (jobs, 1, row("b", **fields) | {"submitted_by": "eve"})], NOW)
    for each in (notifier, notifier, Notifier(database, tmp_path / "rules.yaml", lambda: NOW + 5)):  # the last after a restart
        await round_of(each)
    assert receiver.titles == [title]
    assert text in receiver.taken[0]["body"]


@ON_SQLITE
async def test_what_was_before_messages_were_switched_on_is_not_told(database, tmp_path, receiver):
    await write(database, [(jobs, 1, row("old", ended=NOW - 60, phase="Failed"))], NOW)
    notifier = await switched_on(database, file_of(tmp_path, receiver, {"on": ["failure", "end", "start"]}))
    await round_of(notifier)
    assert receiver.taken == []


@ON_SQLITE
async def test_digest_is_one_message_at_the_end_of_its_time(database, tmp_path, receiver):
    file = file_of(tmp_path, receiver, {"on": ["failure"], "digest": "1h"})
    notifier = await switched_on(database, file)
    await write(database, [(jobs, 1, row(name, ended=NOW, phase="Failed")) for name in ("a", "b", "c")], NOW)
    await round_of(notifier)
    assert receiver.taken == []
    await round_of(Notifier(database, file, lambda: NOW + 3600))
    assert receiver.titles == ["3 messages of Pyroclast"]
    assert all(f"Job team/{name} is Failed" in receiver.taken[0]["body"] for name in ("a", "b", "c"))


@ON_SQLITE
async def test_message_that_is_refused_is_sent_later_and_its_target_is_not_pressed(
    database, tmp_path, receiver, monkeypatch, capfd
):
    monkeypatch.setattr(module, "PAUSES", (0.2, 0.2))
    notifier = await switched_on(database, file_of(tmp_path, receiver, {"on": ["failure"]}))
    await write(database, [(jobs, 1, row(name, ended=NOW, phase="Failed")) for name in "ab"], NOW)
    receiver.status = 500
    await round_of(notifier)
    receiver.status = 200
    await round_of(notifier)
    assert receiver.taken == []  # the target rests
    await asyncio.sleep(0.3)
    await round_of(notifier)
    assert sorted(receiver.titles) == ["Job team/a is Failed", "Job team/b is Failed"]
    assert not any(AGAIN in each["body"] for each in receiver.taken)
    assert "hidden" not in "".join(capfd.readouterr())


@ON_SQLITE
async def test_spent_budget_is_told_once_for_each_share(database, tmp_path, receiver):
    notifier = await switched_on(
        database, file_of(tmp_path, receiver, {"on": ["budget"], "queue": "q"}, {"on": ["budget"], "user": "ann"})
    )
    notifier._load()
    for queue, what in (("q", "80 %"), ("q", "80 %"), ("other", "80 %"), ("q", "95 %")):
        await notifier.told_budget(queue, what, f"{what} is reached")
    await notifier.send()
    assert sorted(each["body"] for each in receiver.taken) == ["80 % is reached", "95 % is reached"]


RULES = {"targets": {"a": "json://x"}, "rules": [{"on": ["end"], "to": ["a"]}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rules": [{"on": ["ends"], "to": ["a"]}]}, "Invalid enum value 'ends'"),
        ({"rules": [{"on": ["end"], "to": ["b"]}]}, "rule 1: there is no target b"),
        ({"rules": [{"on": ["end"], "to": ["a"], "after": "soon"}]}, "soon is no duration"),
        ({"rule": []}, "unknown field `rule`"),
    ],
    ids=["what", "target", "duration", "field"],
)
def test_rules_that_are_not_valid_are_refused_in_words_without_a_url(change, message):
    with pytest.raises(ValueError, match=message) as refused:
        parse_rules(yaml.safe_dump(RULES | change))
    assert "json://" not in str(refused.value)


PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from pyroclast_recorder import notices
from pyroclast_recorder.database.database import Database
notices.PERIOD_SECONDS = 0.01
async def main():
    database = Database(sys.argv[1], sys.argv[2])
    await notices.Notifier(database, Path(sys.argv[3]), lambda: int(sys.argv[4])).run()
asyncio.run(main())
"""


@pytest.mark.timeout(240)
async def test_recorder_killed_at_any_moment_tells_each_transition_once_or_says_that_it_repeats(tmp_path, receiver):
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    database = Database(url, CLUSTER)
    await database.migrate()
    file = file_of(tmp_path, receiver, {"on": ["failure"]})
    await switched_on(database, file)
    names = [f"j{number}" for number in range(40)]
    await write(database, [(jobs, 1, row(name, ended=NOW, phase="Failed")) for name in names], NOW)
    await database.close()
    receiver.pause = 0.05
    wanted, kills = {f"Job team/{name} is Failed" for name in names}, 4
    for rest in (random.Random(7).uniform(0.0, 0.5) for _ in range(kills + 1)):
        command = [sys.executable, "-c", PROGRAM, url, CLUSTER, str(file), str(NOW)]
        process = subprocess.Popen(command)  # noqa: ASYNC220 - nothing else runs here
        before = len(receiver.taken)
        while len(receiver.taken) == before and process.poll() is None:
            await asyncio.sleep(0.005)
        await asyncio.sleep(rest)
        process.send_signal(signal.SIGKILL)
        process.wait()
    last = Notifier(Database(url, CLUSTER), file, lambda: NOW)
    await round_of(last)
    await last._database.close()
    assert set(receiver.titles) == wanted
    keys = {(each["title"], each["key"]) for each in receiver.taken}  # a webhook that knows the keys takes each message once
    assert len(keys) == len({key for _, key in keys}) == len(names)
    first_times = Counter(each["title"] for each in receiver.taken if AGAIN not in each["body"])
    assert set(first_times.values()) == {1}
    repeated = sum(AGAIN in each["body"] for each in receiver.taken)
    assert repeated <= kills + 1
    print(f"{len(names)} transitions, {kills + 1} kills, {repeated} messages repeated and marked")
