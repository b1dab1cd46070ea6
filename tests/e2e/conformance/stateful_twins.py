"""The same steps on two servers, and where their answers, lists and watches differ."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pyroclast_standalone.apiserver.documents.json_patch import merge
from tests.e2e.conformance.cases import Step, path_of
from tests.e2e.conformance.compare import Difference, differences
from tests.e2e.conformance.driver import Run, Server
from tests.e2e.conformance.stateful_kinds import Kind

__all__ = ["Twins", "twins"]

_PLACEHOLDER = re.compile(r"\$(?:uid|rv|stale) ([^$]+)\$")
_NO_UID = "99999999-9999-9999-9999-999999999999"
_CONSTANT_UIDS = (_NO_UID, "00000000-0000-0000-0000-000000000000", "11111111-1111-1111-1111-111111111111")
_MARKER = "zz-marker"  # an object that every watch sees, made when nothing else is to come
_NOISE = "kube-root-ca.crt"  # which kube-controller-manager makes again whenever it is deleted
_SETTLE_SECONDS = 10.0
_CALM_SECONDS = 0.7  # for which two equal lists that look unfinished must stay so to be taken as they are
_EVENT_SECONDS = 3.0
_QUOTED = re.compile(r'"\{(?:[^"\\]|\\.)*\}"')
_LAWLESS = re.compile(r"(failed to create typed patch object \(.*?\):).*", re.DOTALL)  # maps are gone through in any order there


class Twins:
    """Two namespaces, one on each server, that should never differ. Made by `twins`."""

    def __init__(self, real: Run, ours: Run, kinds: Sequence[Kind]) -> None:
        self.runs = (real, ours)
        self.kinds = kinds
        self.collects = False  # whether the garbage collector has something to do, at a time of its own
        self._left: set[tuple[str, ...]] = set()  # what the collectors were seen to leave as it is

    async def start(self) -> None:
        """Open the watches."""
        await asyncio.gather(*map(self._watch, self.runs))

    async def ask(self, step: Step) -> list[Difference]:
        """Carry out `step`; where the answers differ."""
        answers = await asyncio.gather(*(self._ask(run, step) for run in self.runs))
        found = list(differences(*map(_in_order, answers)))
        self.collects |= "ownerReferences" in json.dumps(step.body) or bool(
            (step.body or {}) and "propagationPolicy" in step.body
        )
        if self.collects and step.kind != "GET" and not found:
            found = await self._settle()
        return found

    async def finish(self) -> list[Difference]:
        """Compare lists, watches and the order of versions."""
        found: list[Difference] = []
        for kind in self.kinds:
            for query in ("", *(f"?{selector}" for selector in kind.selectors)):
                found += await self.ask(Step("GET", f"{kind.collection}{query}"))
        pages = await asyncio.gather(*map(self._pages, self.runs))
        found += differences(*pages, "pages")
        events = await asyncio.gather(*map(self._events, self.runs))
        found += differences(*events, "events")
        if not self.collects:
            found += differences(*(run.normal.versions() for run in self.runs), "versions")
        return found

    async def clear(self) -> None:
        """Take away the finalizers that would keep the namespaces."""
        for run in self.runs:
            for kind in self.kinds:
                for item in await _items(run, kind):
                    if item["metadata"].get("finalizers"):
                        path = path_of(f"{kind.collection}/{item['metadata']['name']}", run.namespace)
                        headers = {"Content-Type": "application/merge-patch+json"}
                        await run.server.request("PATCH", path, {"metadata": {"finalizers": None}}, headers)

    async def _ask(self, run: Run, step: Step) -> dict[str, Any] | None:
        for target in sorted(set(_PLACEHOLDER.findall(json.dumps([step.target, step.body])))):
            await self._remember(run, target)
        if isinstance(step.body, dict) and "edited" in step.body:
            step = Step(step.kind, step.target, await _edited(run, step), step.options)
        return await run.step(step)

    async def _remember(self, run: Run, target: str) -> None:
        """Save what `target` is now, and the version before."""
        found = await _get(run, target)
        metadata = found["metadata"] if found else {}
        version, last = metadata.get("resourceVersion", "1"), run.saved.get(f"rv {target}", "1")
        if last != version:
            run.saved[f"stale {target}"] = last
        run.saved.setdefault(f"stale {target}", "1")
        run.saved[f"rv {target}"] = version
        run.saved[f"uid {target}"] = metadata.get("uid", _NO_UID)
        run.normal.value({"resourceVersion": version})

    async def _settle(self) -> list[Difference]:
        """Wait until the garbage collectors have come to rest; where the lists still differ then."""
        clock = asyncio.get_running_loop().time
        deadline, equal_since = clock() + _SETTLE_SECONDS, None
        while True:
            sides = await asyncio.gather(*(self._lists(run) for run in self.runs))
            found = list(differences(*(_bare(side) for side in sides), "settled"))
            equal_since = None if found else equal_since or clock()
            restless = {each for side in sides for each in _restless(side)}
            if not found and restless <= self._left:
                return []
            if equal_since is not None and clock() - equal_since > _CALM_SECONDS:
                self._left |= restless
                return []
            if clock() > deadline:
                return found
            await asyncio.sleep(0.03)

    async def _lists(self, run: Run) -> list[dict[str, Any]]:
        return [item for kind in self.kinds for item in await _items(run, kind)]

    async def _watch(self, run: Run) -> None:
        for kind in self.kinds:
            await run.step(Step("GET", kind.collection, options={"save": {"start": "metadata.resourceVersion"}, "quiet": True}))
            for selector in ("", *kind.selectors):
                target = f"{kind.collection}?watch=1&resourceVersion=$start$&timeoutSeconds=900&{selector}"
                await run.step(Step("watch", target, options={"as": f"{kind} {selector}"}))

    async def _events(self, run: Run) -> dict[str, Any]:
        """What the watches saw, up to an object that all of them see."""
        for kind in self.kinds:
            body = {"metadata": {"name": _MARKER, "labels": {"x": "1"}}, "apiVersion": kind.api_version, "kind": kind.name}
            status, _, content = await run.server.request(
                "POST", path_of(kind.collection, run.namespace), body | dict(kind.marker)
            )
            assert status == 201, content
        for events in run.events.values():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVENT_SECONDS):
                    while not any(_name(event) == _MARKER for event in reversed(events)):
                        await asyncio.sleep(0.01)
        seen = {name: [event for event in events if _name(event) not in (_MARKER, _NOISE)] for name, events in run.events.items()}
        if self.collects:
            seen = {name: _last_of_each(events) for name, events in seen.items()}
        return {name: [_in_order(run.normal.value(event)) for event in events] for name, events in seen.items()}

    async def _pages(self, run: Run) -> list[Any]:
        """All lists, two objects at a time."""
        pages: list[Any] = []
        for kind in self.kinds:
            if kind.name == "ConfigMap":
                continue  # one that is no business of ours would count
            token, pages_before = "", len(pages)
            while token or len(pages) == pages_before:
                path = path_of(f"{kind.collection}?limit=2{f'&continue={token}' if token else ''}", run.namespace)
                document = json.loads((await run.server.request("GET", path))[2])
                token = document.get("metadata", {}).get("continue", "")
                rest = document.get("metadata", {}).get("remainingItemCount")
                pages.append([rest, *(run.normal.value(item["metadata"]["name"]) for item in document.get("items") or [])])
        return pages


@contextlib.asynccontextmanager
async def twins(real: Server, ours: Server, kinds: Sequence[Kind]) -> AsyncIterator[Twins]:
    """A namespace on each server, watched from the start."""
    async with contextlib.AsyncExitStack() as stack:
        runs = await asyncio.gather(*(stack.enter_async_context(server.opened()) for server in (real, ours)))
        for run in runs:
            run.normal.text(" ".join(_CONSTANT_UIDS))  # known to both from the start
        both = Twins(*runs, kinds)
        await both.start()
        try:
            yield both
        finally:
            await both.clear()


async def _get(run: Run, target: str) -> dict[str, Any] | None:
    status, _, content = await run.server.request("GET", path_of(target, run.namespace))
    found: dict[str, Any] = json.loads(content)
    return found if status == 200 else None


async def _items(run: Run, kind: Kind) -> list[dict[str, Any]]:
    found = await _get(run, kind.collection)
    return [item for item in (found or {}).get("items") or [] if item["metadata"]["name"] != _NOISE]


async def _edited(run: Run, step: Step) -> dict[str, Any]:
    """What is there with the changes of the step merged in, or the changes alone where there is nothing."""
    target = step.target.partition("?")[0]
    name = target.removesuffix("/status").removesuffix("/scale").rpartition("/")[2]
    return merge(await _get(run, target) or {"metadata": {"name": name}}, step.body["edited"])


def _name(event: Any) -> str:
    if not isinstance(event, dict):
        return ""
    name: str = event.get("object", {}).get("metadata", {}).get("name", "")
    return name


def _last_of_each(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How it ended for each object: which dependent goes first, and in how many steps, is up to the collector."""
    ends = {_name(event): event for event in events}
    for event in ends.values():
        event["object"]["metadata"].pop("resourceVersion", None)
    return [ends[name] for name in sorted(ends)]


def _bare(items: Sequence[dict[str, Any]]) -> list[Any]:
    """What collectors change of objects."""
    return [
        {
            "kind": item.get("kind"),
            "name": item["metadata"]["name"],
            "goes": "deletionTimestamp" in item["metadata"],
            "finalizers": item["metadata"].get("finalizers"),
            "owners": len(item["metadata"].get("ownerReferences") or []),
        }
        for item in items
    ]


def _restless(items: Sequence[dict[str, Any]]) -> set[tuple[str, ...]]:
    """What a garbage collector might have to do with, among all objects of one namespace."""
    uids = {item["metadata"]["uid"] for item in items}
    found = set()
    for metadata in (item["metadata"] for item in items):
        finalizers = metadata.get("finalizers") or []
        missing = [owner["uid"] for owner in metadata.get("ownerReferences") or [] if owner["uid"] not in uids]
        goes = metadata.get("deletionTimestamp", "")
        if missing or (goes and {"orphan", "foregroundDeletion"} & set(finalizers)):
            found.add((metadata["uid"], goes, *finalizers, *missing))
    return found


def _in_order(value: Any) -> Any:
    """`value` with managed fields by manager: their own order is by times in seconds, which two servers may cut differently."""
    match value:
        case dict():
            ordered = {key: _in_order(item) for key, item in value.items()}
            if isinstance(message := ordered.get("message"), str):
                message = _QUOTED.sub(_sorted_json, message)
                ordered["message"] = _LAWLESS.sub(r"\1 <first of several>", message)
            if isinstance(entries := ordered.get("managedFields"), list):
                ordered["managedFields"] = sorted(entries, key=_entry)
            return ordered
        case list():
            return [_in_order(item) for item in value]
        case _:
            return value


def _sorted_json(found: re.Match[str]) -> str:
    """A quoted object in one order: that of the other server is partly of its structs, partly alphabetical."""
    try:
        return json.dumps(json.loads(json.loads(found[0])), sort_keys=True)
    except ValueError:
        return found[0]


def _entry(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key)) for key in ("manager", "operation", "subresource", "apiVersion", "fieldsV1"))
