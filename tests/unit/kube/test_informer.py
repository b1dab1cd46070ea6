from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import pytest

from pyroclast.api.records.pods import Pod
from pyroclast.api.types import PODS, Key
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.follower import Timing
from pyroclast.kube.watch.informer import Informer
from tests.unit.kube.fault_server import FaultServer, Observed, Watch, answer, cut, hang, status

LIST, WATCH = "GET /api/v1/pods", "WATCH /api/v1/pods"
QUICK = Timing(watch=(60.0, 60.0), slack=1.0, first_pause=0.01, longest_pause=0.05)


def pod(name: str, version: int, *, uid: str = "", node: str = "", **metadata: Any) -> dict[str, Any]:
    meta = {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {"metadata": meta, "spec": {"nodeName": node}}


def pods(*items: dict[str, Any], version: int, rest: str = "") -> Any:
    return answer(200, {"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": rest}, "items": list(items)})


def event(type_: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": type_, "object": item}


def bookmark(version: int) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def gone(code: int = 410, reason: str = "Expired") -> dict[str, Any]:
    return event(
        "ERROR", {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "too old resource version"}
    )


Changes = list[tuple[str | None, str | None]]


class Running:
    """An informer that runs, and what its handler was told: resourceVersions before and after."""

    def __init__(self, client: Client, timing: Timing = QUICK, **options: Any) -> None:
        self.informer: Informer[Pod] = Informer(client, PODS, Pod, timing=timing, **options)
        self.changes: Changes = []
        self.informer.on_change(self._note)

    def _note(self, old: Pod | None, new: Pod | None) -> None:
        self.changes.append(tuple(pod and f"{pod.metadata.name}@{pod.metadata.resource_version}" for pod in (old, new)))

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self.informer.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.005)
                assert not self._task.done()

    async def until_changes(self, count: int) -> Changes:
        await self.until(lambda: len(self.changes) >= count)
        await asyncio.sleep(0.02)
        return self.changes

    @property
    def names(self) -> list[str]:
        return sorted(f"{pod.metadata.name}@{pod.metadata.resource_version}" for pod in self.informer.values())


async def test_informer_lists_in_pages_then_watches_from_the_list_version(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), pod("b", 2), version=5, rest="more"), pods(pod("c", 3), version=5))
    watch = Watch(event("ADDED", pod("d", 6)), event("MODIFIED", pod("a", 7)), event("DELETED", pod("b", 8)))
    server.on(WATCH, watch)
    async with Running(client, label_selector="x=y", field_selector="spec.nodeName!=") as running:
        await running.informer.synced()
        changes = await running.until_changes(6)
    assert changes[:3] == [(None, "a@1"), (None, "b@2"), (None, "c@3")]
    assert changes[3:] == [(None, "d@6"), ("a@1", "a@7"), ("b@8", None)]
    assert running.names == ["a@7", "c@3", "d@6"]
    first, second = server.seen(LIST)
    assert first.query == {"labelSelector": "x=y", "fieldSelector": "spec.nodeName!=", "limit": "100"}
    assert second.query == {**first.query, "continue": "more", "limit": second.query["limit"]}
    assert server.seen(WATCH)[0].query == {
        "labelSelector": "x=y",
        "fieldSelector": "spec.nodeName!=",
        "resourceVersion": "5",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "60",
        "watch": "true",
    }


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(lambda watch: watch.cut(), id="connection closed"),
        pytest.param(lambda watch: watch.send(b'{"type":"MODIFIED","object":{"meta').cut(), id="cut within a line"),
        pytest.param(lambda watch: watch.send(b'{"type":"MODIFIED","object":{"meta').end(), id="ended within a line"),
        pytest.param(lambda watch: watch.send(b"garbage\n"), id="not JSON"),
        pytest.param(lambda watch: watch.send(b'{"hello":"world"}\n'), id="not an event"),
        pytest.param(lambda watch: watch.send(event("SHRUG", {"metadata": {}})), id="unknown event"),
        pytest.param(lambda watch: watch.send(gone(500, "InternalError")), id="server error in the stream"),
        pytest.param(lambda watch: watch.end(), id="ended in order"),
    ],
)
async def test_a_broken_watch_resumes_from_its_last_bookmark_without_a_relist(
    server: FaultServer, client: Client, ending
) -> None:
    server.on(LIST, pods(pod("a", 1), version=5), pods(version=9))  # the second answers "do you still know what I know?"
    first = Watch(event("MODIFIED", pod("a", 6)), bookmark(9))
    ending(first)
    server.on(WATCH, first, Watch(event("MODIFIED", pod("a", 10))))
    async with Running(client) as running:
        assert await running.until_changes(3) == [(None, "a@1"), ("a@1", "a@6"), ("a@6", "a@10")]
    assert [got.query["resourceVersion"] for got in server.seen(WATCH)] == ["5", "9"]
    assert [got.query["limit"] for got in server.seen(LIST) if got.query["limit"] != "1"] == ["100"]


@pytest.mark.parametrize("answered", [pytest.param(status(410, "Expired"), id="status"), pytest.param(Watch(gone()), id="event")])
async def test_a_410_relists_and_reports_the_missed_changes(
    server: FaultServer, client: Client, observed: Observed, answered
) -> None:
    server.on(
        LIST,
        pods(pod("stays", 1), pod("goes", 2), pod("changes", 3), pod("returns", 4), version=5),
        pods(pod("stays", 1), pod("changes", 13), pod("returns", 14, uid="other"), pod("comes", 15), version=20),
    )
    server.on(WATCH, answered, Watch(event("DELETED", pod("stays", 21))))
    async with Running(client) as running:
        changes = await running.until_changes(10)
    assert changes[4:] == [
        ("changes@3", "changes@13"),
        ("returns@4", None),
        (None, "returns@14"),
        (None, "comes@15"),
        ("goes@2", None),
        ("stays@21", None),
    ]
    assert [got.query["resourceVersion"] for got in server.seen(WATCH)] == ["5", "20"]
    assert observed.incidents == ["relist"]


async def test_an_expired_continue_token_restarts_the_informer_list(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), version=5, rest="old"), status(410, "Expired"), pods(pod("a", 1), pod("b", 6), version=7))
    server.on(WATCH, Watch())
    async with Running(client) as running:
        await running.informer.synced()
        assert running.names == ["a@1", "b@6"]
    assert "continue" not in server.seen(LIST)[2].query


@pytest.mark.parametrize(
    "fault",
    [cut, status(500, "InternalError"), status(429, "TooManyRequests", Retry_After="0"), answer(200, b"["), answer(200, [])],
)
async def test_a_failing_list_is_tried_again(server: FaultServer, client: Client, fault) -> None:
    server.on(LIST, fault, fault, pods(pod("a", 1), version=5))
    server.on(WATCH, Watch())
    async with Running(client) as running:
        await running.informer.synced()
        assert running.names == ["a@1"]


async def test_a_refused_list_or_watch_is_retried(server: FaultServer, client: Client, observed: Observed) -> None:
    server.on(LIST, status(403, "Forbidden"), status(403, "Forbidden"), status(404, "NotFound"), pods(pod("a", 1), version=5))
    server.on(WATCH, status(403, "Forbidden"), Watch(event("MODIFIED", pod("a", 6))))
    async with Running(client) as running:
        assert not running.informer.has_synced
        await running.until_changes(2)
    assert observed.incidents == ["refused"] * 4


async def test_duplicate_and_stale_events_are_dropped(server: FaultServer, client: Client, observed: Observed) -> None:
    server.on(LIST, pods(pod("a", 4), version=5))
    watch = Watch(
        event("MODIFIED", pod("a", 7)),
        event("MODIFIED", pod("a", 7)),  # twice
        event("MODIFIED", pod("a", 6)),  # an older state
        event("ADDED", pod("ghost", 3)),  # something that is no more
        event("DELETED", pod("a", 5)),  # an older deletion
        event("MODIFIED", pod("a", 9)),
    )
    server.on(WATCH, watch)
    async with Running(client) as running:
        assert await running.until_changes(3) == [(None, "a@4"), ("a@4", "a@7"), ("a@7", "a@9")]
    assert observed.incidents == ["stale"] * 4


async def test_undecodable_objects_are_removed_until_repaired_and_unreadable_fields_are_only_reported(
    server: FaultServer, client: Client, observed: Observed
) -> None:
    broken = pod("broken", 2) | {"spec": "not a spec"}
    server.on(LIST, pods(pod("a", 1), broken, pod("b", 3), version=5))
    watch = Watch(
        event("MODIFIED", pod("a", 6) | {"status": 7}),  # breaks
        event("MODIFIED", pod("a", 7) | {"status": 7}),  # still the same fault
        event("MODIFIED", pod("broken", 8)),  # is repaired
        event("DELETED", pod("a", 9) | {"status": 7}),
        event("ADDED", {"metadata": {"namespace": "ns", "name": "worse", "resourceVersion": "10", "labels": "none"}}),
        event("MODIFIED", pod("b", 11)),
    )
    server.on(WATCH, watch)
    async with Running(client) as running:
        changes = await running.until_changes(6)
        assert running.informer.undecodable.keys() == {Key("ns", "worse")}
    assert changes == [(None, "a@1"), (None, "b@3"), ("a@1", None), (None, "broken@8"), (None, "worse@10"), ("b@3", "b@11")]
    assert observed.incidents == ["undecodable"] * 3


async def test_a_relist_updates_which_objects_are_undecodable(server: FaultServer, client: Client) -> None:
    broken = {"spec": "not a spec"}
    server.on(LIST, pods(pod("a", 1) | broken, pod("b", 2), version=5), pods(pod("b", 6) | broken, version=7))
    server.on(WATCH, Watch(gone()), Watch())
    async with Running(client) as running:
        await running.until(lambda: not running.names and len(server.seen(WATCH)) == 2)
        assert running.informer.undecodable.keys() == {Key("ns", "b")}
    assert running.changes == [(None, "b@2"), ("b@2", None)]


async def test_a_failing_handler_or_indexer_does_not_stop_the_informer(
    server: FaultServer, client: Client, observed: Observed
) -> None:
    def by_node(pod: Pod) -> list[str]:
        if pod.metadata.name == "bad":
            raise ValueError(pod)
        return [pod.spec.node_name]

    def fail(old: Pod | None, new: Pod | None) -> None:
        raise RuntimeError("oh")

    server.on(LIST, pods(pod("bad", 1, node="n"), pod("good", 2, node="n"), version=5))
    server.on(WATCH, Watch())
    running = Running(client, indexers={"node": by_node})
    running.informer.on_change(fail)
    async with running:
        await running.informer.synced()
        assert [pod.metadata.name for pod in running.informer.by_index("node", "n")] == ["good"]
    assert len(running.changes) == 2
    assert observed.incidents.count("handler_error") == 3


async def test_a_handler_added_later_receives_all_cached_objects(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), version=5))
    server.on(WATCH, Watch())
    told: list[Any] = []
    async with Running(client) as running:
        await running.informer.synced()
        running.informer.on_change(lambda old, new: told.append((old, new)))
    assert [(old, new.metadata.name) for old, new in told] == [(None, "a")]


async def test_a_watch_without_a_response_is_abandoned_and_reopened(
    server: FaultServer, client: Client, observed: Observed
) -> None:
    server.on(LIST, pods(pod("a", 1), version=5))
    server.on(WATCH, hang, Watch(event("MODIFIED", pod("a", 6))))
    async with Running(client, Timing(watch=(0.05, 0.05), slack=0.05, first_pause=0.01)) as running:
        await running.until_changes(2)
    assert "stall" in observed.incidents


async def test_a_watch_that_exceeds_its_timeout_is_closed_and_reopened(
    server: FaultServer, client: Client, observed: Observed
) -> None:
    server.on(LIST, pods(pod("a", 1), version=5), pods(version=7))
    deaf = Watch(bookmark(7))
    server.on(WATCH, deaf, Watch(event("MODIFIED", pod("a", 8))))
    async with Running(client, Timing(watch=(0.2, 0.2), slack=0.1, first_pause=0.01)) as running:
        await running.until_changes(2)
    assert [got.query["resourceVersion"] for got in server.seen(WATCH)][:2] == ["5", "7"]
    assert observed.incidents[0] == "stall"


async def test_watches_that_end_at_once_are_not_opened_in_a_busy_loop(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(version=5))
    server.on(WATCH, *[Watch().end() for _ in range(1000)])
    began = asyncio.get_running_loop().time()
    async with Running(client, Timing(first_pause=0.05, longest_pause=0.1)) as running:
        await running.until(lambda: len(server.seen(WATCH)) >= 6)
    assert asyncio.get_running_loop().time() - began >= 0.1


async def test_a_lower_resource_version_after_a_reconnect_triggers_a_relist(
    server: FaultServer, client: Client, observed: Observed
) -> None:
    server.on(LIST, pods(pod("a", 900), version=1000), pods(version=3), pods(pod("b", 2), version=3))
    server.on(WATCH, Watch().cut(), Watch())
    async with Running(client) as running:
        await running.until(lambda: len(server.seen(WATCH)) == 2)
    assert running.names == ["b@2"]
    assert [got.query["resourceVersion"] for got in server.seen(WATCH)] == ["1000", "3"]
    assert observed.incidents == ["reconnect", "relist"]


async def test_a_bookmark_with_a_lower_resource_version_triggers_a_relist(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 900), version=1000), pods(pod("b", 2), version=3))
    server.on(WATCH, Watch(bookmark(3)), Watch())
    async with Running(client) as running:
        await running.until(lambda: running.names == ["b@2"])


RESTORED = {
    "the newest object is as it was": ([pod("b", 6)], False),
    "it has another version": ([pod("b", 7)], True),
    "it is not there": ([], True),
}


@pytest.mark.parametrize("case", RESTORED)
async def test_a_watch_resumes_after_an_outage_only_if_the_newest_cached_object_is_unchanged(
    server: FaultServer, client: Client, case: str
) -> None:
    """It may have been restored from a backup: the numbers of its new history say nothing about ours."""
    held, listed_anew = RESTORED[case]
    server.on(LIST, pods(pod("a", 1), version=5), pods(*held, version=900), pods(pod("c", 880), version=900))
    server.on(WATCH, Watch(event("ADDED", pod("b", 6))), Watch(event("ADDED", pod("d", 901))))
    async with Running(client) as running:
        await running.until(lambda: running.names == ["a@1", "b@6"])
        await server.stop()
        await asyncio.sleep(0.1)
        await server.start()
        await running.until(lambda: "d@901" in running.names)
        assert running.names == (["c@880", "d@901"] if listed_anew else ["a@1", "b@6", "d@901"])
    assert server.seen(LIST)[1].query == {"limit": "1", "fieldSelector": "metadata.namespace=ns,metadata.name=b"}


async def test_an_outage_triggers_a_relist_when_the_last_event_was_a_deletion(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), version=5), pods(pod("c", 880), version=900), pods(pod("c", 880), version=900))
    server.on(WATCH, Watch(event("DELETED", pod("a", 6))), Watch())
    async with Running(client) as running:
        await running.until(lambda: len(running.changes) == 2)
        await server.stop()
        await asyncio.sleep(0.1)
        await server.start()
        await running.until(lambda: running.names == ["c@880"])


async def test_informer_waits_for_an_unreachable_server_and_then_syncs(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(pod("a", 1), version=5))
    server.on(WATCH, Watch())
    await server.stop()
    async with Running(client) as running:
        await asyncio.sleep(0.1)
        assert not running.informer.has_synced
        await server.start()
        await running.informer.synced()
    assert running.names == ["a@1"]


async def test_informer_reports_a_stall_only_when_its_watch_is_overdue(server: FaultServer, client: Client) -> None:
    server.on(LIST, pods(version=5))
    server.on(WATCH, Watch())
    running = Running(client, Timing(watch=(0.3, 0.3), slack=0.1))
    assert running.informer.stalled_for() == 0.0
    async with running:
        await running.informer.synced()
        await asyncio.sleep(0.1)
        assert running.informer.stalled_for() == 0.0
        running.informer._follower._overdue_at = asyncio.get_running_loop().time() - 7.0  # as if the task had stopped being run
        assert running.informer.stalled_for() >= 7.0
    assert running.informer.stalled_for() == 0.0


async def test_non_numeric_resource_versions_are_passed_on_unchanged(server: FaultServer, client: Client) -> None:
    one = pod("a", 1) | {"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "x9"}}
    two = pod("a", 1) | {"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "x10"}}
    server.on(LIST, answer(200, {"metadata": {"resourceVersion": "x9"}, "items": [one]}))
    server.on(WATCH, Watch(event("MODIFIED", two)).end(), Watch())
    async with Running(client) as running:
        await running.until(lambda: len(server.seen(WATCH)) == 2)
    assert running.names == ["a@x10"]
    assert server.seen(WATCH)[1].query["resourceVersion"] == "x10"


async def test_a_long_list_does_not_hold_up_the_loop(
    server: FaultServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyroclast.kube.basics.time_slices.TURN_SECONDS", 0.0)
    server.on(LIST, pods(*(pod(f"p{i}", i) for i in range(3000)), version=5000))
    server.on(WATCH, Watch())
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += not running.informer.has_synced and len(running.informer) > 0

    counting = asyncio.ensure_future(count())
    async with Running(client) as running:
        await running.informer.synced()
    counting.cancel()
    assert len(running.informer) == 3000
    assert turns >= 2999
