"""The list of flows, and the page of one flow as a graph with its critical path."""

from __future__ import annotations

from typing import Any, Final

from pyroclast.views.flows import draw_flow, flow_rows
from pyroclast_board.cluster.cluster import Cluster
from pyroclast_board.cluster.jobs import as_object
from pyroclast_board.cluster.records import ShownFlow
from pyroclast_board.pages.base import Page, Scope, Section, Templates

SHOWN: Final = 200


def flows(cluster: Cluster, templates: Templates, scope: Scope) -> Page:
    """Return the page of all flows, newest first."""
    seen = [each for each in cluster.flows.values() if scope.sees(each.metadata.namespace)]
    seen.sort(key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name), reverse=True)
    row = templates.macro("flows.html", "row")
    rows = tuple((f"flow-{each.metadata.uid}", row(_summary(each))) for each in seen[:SHOWN])
    told = templates.macro("flows.html", "counts")(len(seen), len(rows), len(cluster.flows) - len(seen))
    return Page(
        "Flows", "flows", [Section("counts", told), Section("flows", head=templates.macro("flows.html", "head")(), rows=rows)]
    )


def flow(cluster: Cluster, templates: Templates, scope: Scope, uid: str) -> Page | None:
    """Return the page of one flow. None when the flow does not exist or the viewer may not see it."""
    found = cluster.flow(uid)
    if found is None or not scope.sees(found.metadata.namespace):
        return None
    key = str(found.metadata.key)
    own = [each for each in cluster.table.rows if each.namespace == found.metadata.namespace and each.flow]
    rows = flow_rows(as_object(found), cluster.now(), {each.name: each.code for each in own})
    jobs = {each.name: each.uid for each in own}
    prefix = f"{found.metadata.name}-"
    entries = [{**each, "uid": jobs.get(f"{prefix}{each['name']}", "")} for each in rows]
    of = "flows.html"
    sections = [
        Section("flow", templates.macro(of, "about")(_summary(found))),
        Section("graph", templates.macro(of, "graph")(draw_flow(key, rows))),
        Section("entries", templates.macro(of, "entries")(entries)),
    ]
    return Page(f"Flow {key}", "flows", sections)


def _summary(found: ShownFlow) -> dict[str, Any]:
    metadata, status = found.metadata, found.status
    return {
        "uid": metadata.uid,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "phase": (status.get("state") or {}).get("phase") or "Pending",
        "entries": len(found.spec.get("flows") or ()),
        "completed": len(status.get("completedJobs") or ()),
        "failed": len(status.get("failedJobs") or ()),
        "created": metadata.creation_timestamp or "",
    }
