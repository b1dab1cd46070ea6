"""Plugin extender: whatever it answers, the session decides; what makes no sense is no answer, and is said once."""

import json
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyroclast_scheduler.cache.cache import Cache
from pyroclast_scheduler.plugins.extender import VERBS
from pyroclast_scheduler.session.configuration import Configuration, PluginEntry
from pyroclast_scheduler.shell.session_inputs import HttpExtender
from tests.counts import examples
from tests.scenarios.runner import feed
from tests.unit.scheduler import deciding

TABLES = {
    "nodes": [["n1", 1, "8Gi"], ["n2", 2, "8Gi"], ["full", 1, "8Gi"]],
    "queues": [["q", {}], ["r", {}]],
    "podgroups": [
        ["old", "r", 0, {"phase": "Running", "class": 1}],
        ["low", "q", 0, {"phase": "Running", "class": 1}],
        ["j", "q", 2, {"class": 9, "minRes": {"cpu": 2}, "phase": "Pending"}],
        ["k", "q", 1, {"class": 5, "minRes": {"cpu": 1}, "phase": "Pending"}],
    ],
    "pods": [
        ["victim", "old", "full", 1, "1Gi"],
        ["lower", "low", "n2", 1, "1Gi"],
        *[[f"j-{i}", "j", "-", 1, "1Gi"] for i in range(2)],
        ["k-0", "k", "-", 1, "1Gi"],
    ],
}


class Says:
    """An extender that gives one answer to everything, or one by verb."""

    def __init__(self, answers):
        self.answers = answers

    def post(self, url, _body, *, timeout):
        del timeout
        if isinstance(self.answers, bytes):
            return self.answers
        return json.dumps(self.answers.get(url.rpartition("/")[2], {})).encode()


VICTIMS = {
    "nodes": [["n", 1, "8Gi"]],
    "queues": [["q", {}], ["r", {}]],
    "podgroups": [["low", "r", 0, {"phase": "Running", "class": 1}], ["j", "q", 1, {"class": 9, "phase": "Inqueue"}]],
    "pods": [["victim", "low", "n", 1, "1Gi"], ["high", "j", "-", 1, "1Gi"]],
}
ALL = ("enqueue", "allocate", "backfill", "preempt", "reclaim")


def decided(answers, *, verbs=VERBS, ignorable=True, actions=ALL, tables=TABLES):
    """What is bound, who is evicted, and what is warned of."""
    cache = Cache()
    feed(cache, tables)
    arguments = {f"extender.{verb}Verb": verb for verb in verbs} | {"extender.urlPrefix": "http://x"}
    arguments["extender.ignorable"] = ignorable
    names = ("priority", "gang", "predicates", "nodeorder")
    tiers = ((*(PluginEntry(name) for name in names), PluginEntry("extender", arguments=arguments)),)
    extender = answers if hasattr(answers, "post") else Says(answers)
    outcome, commits = deciding.committed(cache, Configuration(actions, tiers), extender=extender)
    placed = {cache.tasks[uid].name for uid in deciding.placed(commits)}
    return placed, deciding.evicted(commits), outcome.warnings


ODD = st.recursive(
    st.one_of(
        *[st.none(), st.booleans(), st.integers(-(2**80), 2**80), st.floats(), st.text(max_size=3)],
        st.sampled_from(["n1", "t-victim", 1e308, -1e308]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["UID", "n1", "n2", "status", ""]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = ["status", "code", "nodeScore", "errorMessage", "victims", "overused"]
ANSWER = st.one_of(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3), ODD)


@settings(max_examples=examples(200))
@given(answers=st.dictionaries(st.sampled_from(VERBS), ANSWER), ignorable=st.booleans())
def test_no_extender_response_makes_a_session_fail_or_repeats_a_warning(answers, ignorable):
    _, _, warnings = decided(answers, ignorable=ignorable)
    assert len(warnings) == len(set(warnings))


WRONG = {
    "predicate": [{"code": [1]}, {"code": "2"}, {"status": ["no"]}, {"code": 1.5}, [], "x", None, 2**70],
    "prioritize": [{"nodeScore": [1]}, {"nodeScore": {"n1": "much"}}, {"nodeScore": {"n1": 1e300}}, {"nodeScore": {"n1": None}}],
    "jobReady": [{"status": "yes"}, {"status": 1}],
    "allocateFunc": [{"errorMessage": {}}, {"errorMessage": 5}],
    "queueOverused": [{"overused": "no"}, {"overused": []}],
    "jobEnqueueable": [{"status": True}, {"status": "1"}, {"status": 1e300}],
}


@pytest.mark.parametrize(("verb", "answer"), [(verb, answer) for verb, answers in WRONG.items() for answer in answers])
@pytest.mark.parametrize("ignorable", [True, False])
def test_a_malformed_extender_response_counts_as_a_failure_and_is_warned_about_once(verb, answer, ignorable):
    placed, _, warnings = decided({verb: answer}, verbs=[verb], ignorable=ignorable, actions=("enqueue", "allocate"))
    assert bool(placed) == (ignorable or verb == "prioritize")
    (warning,) = warnings
    assert warning.startswith(f"plugin extender: http://x/{verb}: ")


@pytest.mark.parametrize("answer", [{"victims": {"UID": "x"}, "status": 1}, {"victims": ["t-victim"]}, {"victims": [{"UID": 1}]}])
@pytest.mark.parametrize(("verb", "action"), [("preemptable", "preempt"), ("reclaimable", "reclaim")])
def test_malformed_victims_in_an_extender_response_are_warned_about_and_nobody_is_evicted(verb, action, answer):
    groups = [["low", "q" if action == "preempt" else "r", *rest] for _, _, *rest in VICTIMS["podgroups"][:1]]
    tables = VICTIMS | {"podgroups": groups + VICTIMS["podgroups"][1:]}
    _, evicted, (warning,) = decided({verb: answer}, verbs=[verb], actions=(action,), tables=tables)
    assert "$.victims" in warning
    assert evicted == []


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{",
        b"\xff",
        b'{"status": "\xff"}',
        b"[" * 100_000,
        b'{"x":' * 100_000,
        b'{"code": NaN}',
        b'{"code": ' + b"9" * 5000 + b"}",
    ],
    ids=["nothing", "half", "no text", "no text inside", "deep", "deeper", "NaN", "digits"],
)
def test_an_extender_response_that_is_no_json_object_is_ignored_with_one_warning(answer):
    placed, _, warnings = decided(answer, verbs=["predicate"], actions=("enqueue", "allocate"))
    assert placed
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n",
    ],
)
def test_an_invalid_http_response_of_the_extender_raises_os_error(head):
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_answer_once, args=(server, head))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/p"
        with pytest.raises(OSError):
            HttpExtender().post(url, b"{}", timeout=10)
        thread.join()


def _answer_once(server, head):
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(head)


def test_an_invalid_extender_url_raises_os_error():
    with pytest.raises(OSError):
        HttpExtender().post("http://x:port/p", b"{}", timeout=1)
