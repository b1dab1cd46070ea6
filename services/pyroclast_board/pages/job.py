"""The page of one Job, also after its deletion.

The page shows why the Job waits, its gang over time, its pods and events, earlier Jobs of its name, and its manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import yaml

from pyroclast.api import keys
from pyroclast.api.types import Key
from pyroclast.pictures.bars import Run, run_bars
from pyroclast.pictures.timeline import timeline
from pyroclast.rules.jobs.arrays import number_of_pods
from pyroclast.runtime.traces import context_of
from pyroclast.views.groups import is_native
from pyroclast.views.readable import human_duration
from pyroclast.views.rows import lanes, slowest_lines, timeline_rows
from pyroclast.views.story import LogSource, StoryFacts, away_since, log_source, nodes_of, printable, story_of
from pyroclast.views.usage import advice_of, efficiency_rows
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.details import JobDetails
from pyroclast_board.cluster.jobs import JobRow, as_object
from pyroclast_board.cluster.records import ShownPod
from pyroclast_board.pages.base import Page, Section, Templates, shown_moment
from pyroclast_board.pages.jobs import is_silent

OF: Final = "job.html"
MOST_LANES: Final = 64
MOST_PODS: Final = 200
MOST_RUNS: Final = 20
MOST_CHARACTERS: Final = 64 * 1024


def job(
    cluster: Cluster,
    templates: Templates,
    row: JobRow,
    *,
    details: JobDetails,
    runs: Sequence[Mapping[str, Any]],
    why: Mapping[str, Any] | None,
    story: Mapping[str, Any],
    missing: str = "",
    trace_url: str = "",
) -> Page:
    """Return the page of an existing Job. `runs`: the records of its name. `why`: None for a Job that does not wait.

    `story`: see the function of this name. `missing`: why the runs are unknown.
    """
    key = f"{row.namespace}/{row.name}"
    record = cluster.table.job(row.uid)
    trace = trace_of(record.metadata.annotations if record else {}, trace_url)
    sections = [
        Section("job", templates.macro(OF, "about")(row, details.missing, trace, silent_nodes(cluster, row.uid)), is_half=True),
        Section("why", templates.macro(OF, "why")(why), is_half=True),
        Section("story", templates.macro(OF, "story")(story, row.uid if log_source(details.pods) else "")),
        *_pods(
            cluster,
            templates,
            row,
            details,
            Section("runs", templates.macro(OF, "runs")(*_runs(key, runs), missing), is_half=True),
        ),
        *(
            Section("efficiency", templates.macro(OF, "efficiency")(rows, advice_of(each)))
            for each in runs
            if each["uid"] == row.uid and (rows := efficiency_rows(each))
        ),
        Section("events", templates.macro(OF, "events")([event_row(each) for each in details.events], details.missing)),
        Section("manifest", templates.macro(OF, "manifest")(_manifest(details.job))),
    ]
    return Page(f"Job {key}", "jobs", sections)


def story(
    cluster: Cluster, row: JobRow, details: JobDetails, runs: Sequence[Mapping[str, Any]], missing: str
) -> Mapping[str, Any]:
    """Return the story of a Job, without its log, which needs the rights of the viewer. `missing`: why the runs are unknown."""
    names = nodes_of(details.pods)
    nodes = ((name, cluster.nodes.get(Key("", name))) for name in sorted(names))
    away = {name: since for name, node in nodes if node is not None and (since := away_since(as_object(node)))}
    unknown = [f"history is not known, because {missing}"] if missing else []
    unknown += [f"not read: {details.missing}"] if details.missing else []
    record = next((each for each in runs if each["uid"] == row.uid), None)
    facts = StoryFacts(
        row.namespace, row.name, details.job, details.pods, details.evictions, record=record, away=away, unknown=unknown
    )
    return story_of(facts)


def last_lines(templates: Templates, row: JobRow, text: str, missing: str, source: LogSource | None = None) -> Page:
    """Return the page with the last lines of one log. `missing` says why there are none."""
    lines = [printable(line) for line in text.splitlines()]
    section = Section("log", templates.macro(OF, "last_lines")(row, lines, source, missing))
    return Page(f"Log of {row.namespace}/{row.name}", "jobs", [section], is_live=False)


def plain_gang(
    cluster: Cluster,
    templates: Templates,
    row: JobRow,
    group_of: Callable[[ShownPod], Key | None],
    *,
    events: JobDetails,
    why: Mapping[str, Any] | None,
) -> Page:
    """Return the page of a PodGroup without a Job. `why` is the explanation why it waits, None when it does not wait."""
    key = Key(row.namespace, row.name)
    pods = [
        (each.metadata.name, each.spec.node_name, each.status.phase) for each in cluster.pods.values() if group_of(each) == key
    ]
    sections = [
        Section("job", templates.macro(OF, "native_about")(row, events.missing), is_half=True),
        Section("why", templates.macro(OF, "why")(why), is_half=True),
        Section("pods", templates.macro(OF, "native_pods")(sorted(pods)[:MOST_PODS], len(pods))),
        Section("events", templates.macro(OF, "events")([event_row(each) for each in events.events], events.missing)),
    ]
    return Page(f"PodGroup {key}", "jobs", sections)


def past_job(templates: Templates, record: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> Page:
    """Return the page of a deleted Job, or of a native PodGroup that has ended, from the recorder's entry."""
    key = f"{record['namespace']}/{record['name']}"
    told = story_of(StoryFacts(record["namespace"], record["name"], None, record=record))
    sections = [
        Section("job", templates.macro(OF, "remembered")(record), is_half=True),
        Section("efficiency", templates.macro(OF, "efficiency")(efficiency_rows(record), advice_of(record)), is_half=True),
        Section("story", templates.macro(OF, "story")(told, "")),
        Section("runs", templates.macro(OF, "runs")(*_runs(key, runs))),
    ]
    title = f"PodGroup {key}" if is_native(record) else f"Job {key}, deleted"
    return Page(title, "history", sections, is_live=False)


def trace_of(annotations: Mapping[str, str], url: str) -> dict[str, str] | None:
    """Return the trace id of a Job, with the URL that shows the trace. None when the Job has no trace."""
    context = context_of(annotations)
    if not context:
        return None
    id_ = context.split("-")[1]
    return {"id": id_, "url": url.replace("{trace}", id_)}


def _pods(cluster: Cluster, templates: Templates, row: JobRow, details: JobDetails, earlier: Section) -> list[Section]:
    """Return the timeline of the gang, the tasks beside the section `earlier`, and the pods."""
    if details.job is None:
        return [earlier]
    rows = timeline_rows(details.job, details.pods)
    begin = datetime.fromisoformat(details.job["metadata"]["creationTimestamp"]).timestamp()
    drawn = lanes(rows[:MOST_LANES], max(0, int(cluster.now() - begin)))
    phases: dict[str, Counter[str]] = {}
    for pod in details.pods:
        task = str((pod["metadata"].get("annotations") or {}).get(keys.TASK_SPEC, ""))
        phases.setdefault(task, Counter())[str((pod.get("status") or {}).get("phase", ""))] += 1
    sizes = {
        str(task.get("name", "")): number_of_pods(task) if task.get("array") else int(task.get("replicas", 1))
        for task in (details.job.get("spec") or {}).get("tasks") or ()
    }
    tasks = [(name, wanted, sorted(phases.get(name, Counter()).items())) for name, wanted in sizes.items()]
    picture = timeline(f"{row.namespace}/{row.name}", drawn) if drawn else None
    return [
        Section("timeline", templates.macro(OF, "gang")(picture, slowest_lines(rows), len(rows) - len(drawn), row.uid)),
        Section("tasks", templates.macro(OF, "tasks")(tasks), is_half=True),
        earlier,
        Section("pods", templates.macro(OF, "pods")(rows[:MOST_PODS], len(rows), int(begin))),
    ]


def silent_nodes(cluster: Cluster, uid: str) -> list[tuple[str, int, str]]:
    """Return the nodes of a Job that are not ready, with the number of its pods on each, and since when."""
    found = ((name, count, cluster.nodes.get(Key("", name))) for name, count in cluster.books.nodes_of(uid).items())
    return sorted((name, count, since) for name, count, node in found if node and (since := is_silent(node)) is not None)


def event_row(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an Event in the form of a table row."""
    return {
        "at": event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "",
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "message": event.get("message", ""),
        "count": (event.get("series") or {}).get("count") or event.get("count") or 1,
    }


def _runs(key: str, runs: Sequence[Mapping[str, Any]]) -> tuple[Any, list[Mapping[str, Any]]]:
    shown = list(runs[:MOST_RUNS])
    bars = [
        Run(
            f"{shown_moment(each['submitted'])}: {each['state']}",
            each["state"],
            each["elapsedSeconds"] or 0,
            human_duration(each["elapsedSeconds"] or 0),
        )
        for each in shown
    ]
    return (run_bars(f"Runs of {key}", bars) if bars else None), shown


def _manifest(document: Mapping[str, Any] | None) -> str:
    """Return the Job as YAML without its status."""
    if document is None:
        return ""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    whole = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": metadata,
        "spec": document.get("spec"),
    }
    text = yaml.dump(whole, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n… {len(text) - MOST_CHARACTERS} more characters"
