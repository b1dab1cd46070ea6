"""Makes a snapshot of the tables of the cache. The snapshot does not change with the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyroclast_scheduler.cache.holds import Holds
from pyroclast_scheduler.cache.jobs import JobTable
from pyroclast_scheduler.cache.nodes import NodeTable
from pyroclast_scheduler.cache.objects import ObjectTable
from pyroclast_scheduler.model.features import NodeFeatures
from pyroclast_scheduler.model.queues import QueueFacts
from pyroclast_scheduler.model.snapshot import Snapshot


def view_of(
    nodes: NodeTable,
    jobs: JobTable,
    queues: Mapping[str, QueueFacts],
    holds: Holds,
    objects: ObjectTable,
    *,
    features: NodeFeatures,
    is_coupled: bool,
    unread_nodes: Mapping[str, str],
) -> Snapshot:
    """Return a snapshot of the present state. The cost grows with the number of nodes, whose arrays are copied.

    `features`: the node features that sessions share. `is_coupled`: whether the placement of some pod depends on other pods.
    `unread_nodes`: the nodes that cannot be read as a whole, with the reasons.
    """
    count = len(nodes.names)
    return Snapshot(
        dimensions=nodes.dimensions.frozen(),
        names=tuple(nodes.names),
        rows=nodes.rows.copy(),
        nodes=tuple(nodes.records),
        is_ready=nodes.is_ready[:count].copy(),
        stamps=nodes.stamps[:count].copy(),
        columns=nodes.taken(),
        ports={row: Counter(ports) for row, ports in nodes.ports.items() if ports},
        residents=tuple(nodes.residents),
        jobs=jobs.awake,
        let_in=jobs.let_in,
        promised=jobs.promised,
        all_jobs=jobs.all_facts(),
        queue_sums=jobs.queue_sums(),
        queues=dict(queues),
        features=features,
        is_coupled=is_coupled,
        held=frozenset(holds.held),
        refused=frozenset(holds.refused),
        objects=objects.view(),
        unread_nodes=unread_nodes,
    )
