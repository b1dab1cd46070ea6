"""Watches: what is told, in which order, and what is not."""

from __future__ import annotations

import asyncio

import pytest

from pyroclast_standalone.apiserver.storage.store import Subscription
from pyroclast_standalone.apiserver.verbs import watching

from .conftest import CONFIG_MAPS, PODS, Api, config_map, pod


async def test_watch_sends_every_change_after_its_resource_version_once(api: Api) -> None:
    start = (await api.get(CONFIG_MAPS)).version
    await api.post(CONFIG_MAPS, config_map("a"))
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={start}") as watch:
        assert (await watch.next())[0] == "ADDED"
        await api.merge(f"{CONFIG_MAPS}/a", {"data": {"a": "2"}})
        kind, seen = await watch.next()
        assert (kind, seen["data"]) == ("MODIFIED", {"a": "2"})
        await api.delete(f"{CONFIG_MAPS}/a")
        kind, seen = await watch.next()
        assert kind == "DELETED"
        assert int(seen["metadata"]["resourceVersion"]) == api.server.server.store.revision


async def test_patch_without_a_change_keeps_the_resource_version_and_sends_no_event(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    before = (await api.get(f"{CONFIG_MAPS}/a")).version
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={before}") as watch:
        assert (await api.merge(f"{CONFIG_MAPS}/a", {"data": {"a": "1"}})).version == before
        await api.merge(f"{CONFIG_MAPS}/a", {"data": {"a": "2"}})
        assert (await watch.next())[1]["data"] == {"a": "2"}


async def test_watch_with_selector_sends_added_and_deleted_when_labels_start_or_stop_matching(api: Api) -> None:
    start = (await api.get(PODS)).version
    await api.post(PODS, pod("a"))
    async with api.watch(f"{PODS}?watch=1&resourceVersion={start}&labelSelector=x") as watch:
        await api.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
        kind, seen = await watch.next()
        assert (kind, seen["metadata"]["labels"]) == ("ADDED", {"x": "1"})
        await api.merge(f"{PODS}/a", {"metadata": {"labels": {"x": None}}})
        kind, seen = await watch.next()
        assert (kind, seen["metadata"]["labels"]) == ("DELETED", {"x": "1"})


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with api.watch(f"{CONFIG_MAPS}?{query}") as watch:
        assert [(await watch.next())[0] for _ in range(2)] == ["ADDED", "ADDED"]
        kind, seen = await watch.next()
        assert kind == "BOOKMARK"
        assert seen["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_bookmark_has_the_resource_version_of_changes_in_other_kinds(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BOOKMARK_SECONDS", 0.05)
    start = (await api.get(CONFIG_MAPS)).version
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={start}&allowWatchBookmarks=true") as watch:
        version = (await api.post(PODS, pod("a"))).version
        kind, seen = await watch.next()
        assert (kind, seen["metadata"]["resourceVersion"]) == ("BOOKMARK", version)


@pytest.mark.parametrize("bookmarks", ["", "&allowWatchBookmarks=true"])
async def test_idle_watch_sends_nothing_and_rarely_wakes(api: Api, monkeypatch: pytest.MonkeyPatch, bookmarks: str) -> None:
    waits: list[float] = []
    wait = Subscription.wait

    async def counted(self: Subscription, now: float, deadline: float) -> None:
        waits.append(deadline)
        await wait(self, now, deadline)

    monkeypatch.setattr(watching, "_BOOKMARK_SECONDS", 0.2)
    monkeypatch.setattr(watching, "_LAST_BOOKMARKS", ())
    monkeypatch.setattr(Subscription, "wait", counted)
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=999999&timeoutSeconds=1{bookmarks}") as watch:
        assert await watch.rest() == []
    assert len(waits) <= (8 if bookmarks else 3)


async def test_watch_from_a_compacted_resource_version_sends_an_expired_error(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    api.server.compact()
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=2") as watch:
        assert watch.response.status == 200
        events = await watch.rest()
    assert [kind for kind, _ in events] == ["ERROR"]
    assert events[0][1]["reason"] == "Expired"
    assert events[0][1]["message"].startswith("too old resource version: 2 (")


@pytest.mark.parametrize(
    ("query", "code"),
    [("resourceVersion=abc", 500), ("sendInitialEvents=true", 422), ("resourceVersionMatch=NotOlderThan", 422)],
)
async def test_watch_with_invalid_parameters_is_refused_before_streaming(api: Api, query: str, code: int) -> None:
    assert (await api.get(f"{CONFIG_MAPS}?watch=1&{query}")).code == code


async def test_a_watch_ends_after_its_timeout_and_when_watches_are_dropped(api: Api) -> None:
    async with api.watch(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion=999999") as watch:
        assert await watch.rest() == []
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=999999") as watch:
        while not api.server.server.store.collection("configmaps").subscriptions:
            await asyncio.sleep(0.01)
        api.server.drop_watches()
        assert await watch.rest() == []


async def test_only_the_first_event_of_a_table_watch_has_columns(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    reply = await api.call(
        "GET",
        f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1",
        Accept="application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    import json

    tables = [json.loads(line)["object"] for line in reply.body.splitlines()]
    assert [table["columnDefinitions"] is None for table in tables] == [False, True]


async def test_replaying_a_watch_gives_the_list(api: Api) -> None:
    start = (await api.get(CONFIG_MAPS)).version
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion={start}") as watch:

        async def write(number: int) -> None:
            name = f"c{number % 7}"
            if (await api.post(CONFIG_MAPS, config_map(name))).code == 409:
                if number % 3:
                    await api.merge(f"{CONFIG_MAPS}/{name}", {"data": {"n": str(number)}})
                else:
                    await api.delete(f"{CONFIG_MAPS}/{name}")

        await asyncio.gather(*(write(number) for number in range(60)))
        end = api.server.server.store.revision
        state: dict[str, str] = {"kube-root-ca.crt": ""}
        last = int(start)
        while last < end:
            kind, seen = await watch.next()
            revision = int(seen["metadata"]["resourceVersion"])
            assert revision > last
            last = revision
            name = seen["metadata"]["name"]
            state.pop(name, None)
            if kind != "DELETED":
                state[name] = seen["metadata"]["resourceVersion"]
    listed = {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in (await api.get(CONFIG_MAPS)).body["items"]
    }
    assert set(state) == set(listed)
    del state["kube-root-ca.crt"], listed["kube-root-ca.crt"]
    assert state == listed
