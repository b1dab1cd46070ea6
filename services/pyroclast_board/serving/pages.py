"""Maps a path to its page."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from pyroclast.api.types import Key
from pyroclast.kube.basics.errors import KubeError
from pyroclast.views.explanation import stored_explanation
from pyroclast.views.jobs import Waiter
from pyroclast.views.story import log_source
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.details import Details
from pyroclast_board.cluster.jobs import JobRow
from pyroclast_board.cluster.natives import NATIVE
from pyroclast_board.pages.base import BadRequest, Page, Scope, Section, Templates, checked
from pyroclast_board.pages.job import job, last_lines, past_job, plain_gang, story
from pyroclast_board.pages.jobs import jobs
from pyroclast_board.pages.node import node
from pyroclast_board.pages.nodes import nodes
from pyroclast_board.pages.overview import history, history_questions, overview, question, what_if
from pyroclast_board.pages.queues import SHOWN, QueueFacts, flow, flows, queue, queues
from pyroclast_board.serving.recorder import Recorder, RecorderAway
from pyroclast_board.serving.scheduler import Scheduler
from pyroclast_board.serving.streams import Followed

MOST_PAST: Final = 500
"""Most namespaces without Jobs whose history the page of history shows."""

ROUTES: Final[Mapping[str, str]] = {
    "": "overview",
    "queues": "queues",
    "queues/*": "queue",
    "jobs": "jobs",
    "jobs/*": "job",
    "flows": "flows",
    "flows/*": "flow",
    "nodes": "nodes",
    "nodes/*": "node",
    "what-if": "what-if",
    "history": "history",
}
"""The page of each path. `*` is any single segment. The documentation has two pictures of each page."""


class Pages:
    """Makes the page of a path for a viewer's scope. `trace_url`: of a trace viewer, with `{trace}` for the id.

    `runbooks`: the URL of the page that says for each alert what helps.
    """

    def __init__(
        self,
        cluster: Cluster,
        details: Details,
        recorder: Recorder,
        scheduler: Scheduler,
        templates: Templates,
        *,
        trace_url: str = "",
        runbooks: str = "",
    ) -> None:
        self._runbooks = runbooks
        self.cluster, self._details, self._recorder, self.scheduler = cluster, details, recorder, scheduler
        self._templates, self._trace_url = templates, trace_url

    def namespaces_of(self, path: str) -> frozenset[str]:
        """Return the namespaces whose Jobs a page may name: those with Jobs or flows, and that of the page.

        History also names Jobs of other namespaces, of at most `MOST_PAST` of them: each costs a question to the API server.
        """
        used = self.cluster.namespaces
        if path == "/history":
            return used | frozenset(itertools.islice(sorted(self.cluster.all_namespaces - used), MOST_PAST))
        _, _, rest = path.removeprefix("/explain").removeprefix("/").partition("/")
        return used | {unquote(rest.partition("/")[0])} & self.cluster.all_namespaces

    async def page(self, followed: Followed) -> Page | None:
        """Return the page below the strip of health. None when the page does not exist or the user may not see it."""
        page = await self._page(followed)
        wrong = [each for each in self.cluster.health if each["state"] == "wrong"]
        strip = Section("health", self._templates.macro("words.html", "health")(wrong, self._runbooks))
        return None if page is None else replace(page, sections=(strip, *page.sections))

    async def _page(self, followed: Followed) -> Page | None:
        cluster, templates, scope, query = self.cluster, self._templates, followed.scope, dict(followed.query)
        first, *rest = followed.path.removeprefix("/").split("/")
        place, name = ROUTES.get("/".join((first, *("*" for _ in rest)))), unquote(rest[0]) if rest else ""
        match place:
            case "jobs":
                return jobs(cluster, templates, scope, query)
            case "nodes":
                return nodes(cluster, templates, scope, query, await self.scheduler.ends())
            case "history":
                return await self._history(scope, query)
            case "what-if":
                body = question(query)
                answer = None if body is None else await self.scheduler.what_if(scope, body)
                return what_if(cluster, templates, query, answer, asked=body is not None)
            case "overview":
                user = checked(query, ("user",)).get("user", followed.viewer)
                return overview(cluster, templates, scope, user, await self.scheduler.ends())
            case "queue":
                given = checked(query, ("time", "resource"))
                order = await self.scheduler.order(scope, name, most=SHOWN)
                said = QueueFacts(order, await self._over_time(given, queue=name), given)
                return queue(cluster, templates, scope, name, said)
        checked(query, ())
        match place:
            case "queues":
                return queues(cluster, templates, await self._over_time({}))
            case "job":
                return await self._job(scope, name)
            case "node":
                return await self._node(scope, name)
            case "flows":
                return flows(cluster, templates, scope)
            case "flow":
                return flow(cluster, templates, scope, name)
        return None

    async def _job(self, scope: Scope, uid: str) -> Page | None:
        row = self.cluster.table.row(uid)
        if row is None:
            return await self._past_job(scope, uid)
        if not scope.sees(row.namespace):
            return None
        if row.kind:
            return await self._group(scope, row)
        details = await self._details.of(Key(row.namespace, row.name))
        runs, missing = await self._runs(row.namespace, row.name)
        why = await self._why(scope, "jobs", self.cluster.table.waiter(uid))
        of = story(self.cluster, row, details, runs, missing)
        return job(
            self.cluster,
            self._templates,
            row,
            details=details,
            runs=runs,
            why=why,
            story=of,
            missing=missing,
            trace_url=self._trace_url,
        )

    async def log(self, scope: Scope, uid: str, token: str | None) -> Page | None:
        """Return the page with the last lines of the log that says why a Job failed, read with the viewer's own token.

        None for `token`: the board is open to this machine. Empty: the proxy that logs in gives no token.
        """
        row = self.cluster.table.row(uid)
        if row is None or row.kind or not scope.sees(row.namespace):
            return None
        source = log_source((await self._details.of(Key(row.namespace, row.name))).pods)
        command = f"vcctl logs -n {row.namespace} {row.name}"
        if source is None:
            return last_lines(self._templates, row, "", f"no container of it has failed; all logs: {command}")
        if token == "":
            return last_lines(self._templates, row, "", f"the board has no token of yours to read logs with; use {command}")
        try:
            text, missing = await self._details.log(row.namespace, source, token), ""
        except KubeError as error:
            text, missing = "", f"{error}; use {command}"
        return last_lines(self._templates, row, text, missing, source)

    async def _over_time(self, given: Mapping[str, str], **only: str) -> dict[str, Any] | str:
        """Return what queues had over a day, or the `time` in `given`; a text says why that is not known."""
        times = {"day": "24h", "week": "7d", "quarter": "92d"}
        time = given.get("time", "day")
        if time not in times:
            raise BadRequest(f'time: there is no "{time[:64]}"; there are {", ".join(times)}')
        steps = {"day": "minute" if only else "hour", "week": "hour", "quarter": "day"}
        asked = {"since": times[time], "step": steps[time]}
        try:
            answer = await self._recorder.series({**asked, **only})
            nodes = {"nodes": (await self._recorder.series(asked)).get("nodes", ())} if only else {}
        except RecorderAway as error:
            return str(error)
        return {**answer, **nodes} if "queues" in answer else "the recorder has no series"

    async def _node(self, scope: Scope, name: str) -> Page | None:
        record = self.cluster.nodes.get(Key("", name))
        if record is None:
            return None
        events = await self._details.events_of_node(name)
        ends = await self.scheduler.ends()
        return node(self.cluster, self._templates, scope, record, ends=ends, events=events)

    async def _group(self, scope: Scope, row: JobRow) -> Page:
        events = await self._details.events_of(Key(row.namespace, row.name), row.uid)
        is_native = row.kind.startswith(NATIVE)
        gangs = self.cluster.natives if is_native else self.cluster.plain
        why = await self._why(scope, "podgroups" if is_native else "jobs", gangs.waiter(row.uid))
        return plain_gang(self.cluster, self._templates, row, gangs.group_of, events=events, why=why)

    async def _why(self, scope: Scope, kind: str, waiter: Waiter | None) -> Mapping[str, Any] | None:
        """Return why a Job or PodGroup waits, from the scheduler or else from the objects. None when it does not wait."""
        if waiter is None or waiter.cause is None:
            return None
        answer = None
        if waiter.cause.is_scheduling:
            answer = await self.scheduler.explanation(scope, waiter.namespace, waiter.name, kind)
        return stored_explanation(waiter, self.cluster.now()) if answer is None else answer

    async def _past_job(self, scope: Scope, uid: str) -> Page | None:
        record = await self._recorder.job(scope, uid)
        if record is None:
            return None
        return past_job(self._templates, record, (await self._runs(record["namespace"], record["name"]))[0])

    async def _runs(self, namespace: str, name: str) -> tuple[list[dict[str, Any]], str]:
        """Return the recorder's Jobs of a name, and why these are unknown."""
        try:
            return await self._recorder.runs(namespace, name), ""
        except RecorderAway as error:
            return [], str(error)

    async def _history(self, scope: Scope, query: Mapping[str, str]) -> Page:
        answers: dict[str, Mapping[str, Any]] = {}
        missing = ""
        try:
            for what, question in history_questions(query).items():
                answers[what] = await self._recorder.ask(scope, what, question)
        except RecorderAway as error:
            missing = str(error)
        if left := max((answer.get("left", 0) for answer in answers.values()), default=0):
            missing = f"{left} of the namespaces that you may see are left out: name one as a filter"
        behind = next((said for answer in answers.values() if (said := answer.get("behind"))), "")
        return history(self._templates, query, answers, missing or behind)
