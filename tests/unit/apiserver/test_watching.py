"""Watches: what is told, in which order, and what is not."""

from __future__ import annotations

import asyncio

import pytest

from pyroclast_standalone.apiserver.storage.store import Subscription
from pyroclast_standalone.apiserver.verbs import watching

from .conftest import CONFIG_MAPS, PODS, Api, config_map, pod


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


async def test_a_watch_ends_after_its_timeout_and_when_watches_are_dropped(api: Api) -> None:
    async with api.watch(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion=999999") as watch:
        assert await watch.rest() == []
    async with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=999999") as watch:
        while not api.server.server.store.collection("configmaps").subscriptions:
            await asyncio.sleep(0.01)
        api.server.drop_watches()
        assert await watch.rest() == []


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
