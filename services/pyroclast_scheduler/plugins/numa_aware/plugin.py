"""The extensions of numa-aware: nodes whose topology manager would reject a pod, and scores for few NUMA nodes."""

from __future__ import annotations

from pyroclast.api import records
from pyroclast.api.types import NUMATOPOLOGIES
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.node_columns import Bools, Floats
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.tasks import Task
from pyroclast_scheduler.placement.plans import PlacementPlan
from pyroclast_scheduler.plugins.numa_aware.nodes import Nodes
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions
from pyroclast_scheduler.session.session import Session


class NumaAware:
    """Places pods with exclusive CPUs on nodes whose topology manager admits them.

    Argument `weight` (1): the weight of the score for few NUMA nodes.
    """

    watches = (Watch(NUMATOPOLOGIES, records.Numatopology, is_of_node=True),)

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("weight", 1)

    def open(self, session: Session) -> Extensions:
        """Return the extensions of this plugin for one session."""
        nodes = Nodes(session)

        def scores(job: Job, task: Task, plan: PlacementPlan, candidates: Bools) -> Floats | None:
            found = nodes.numa_scores(job, task, plan, candidates)
            return None if found is None else found * self._weight

        return Extensions(
            coupled_predicate=nodes.coupled_refusals,
            retry_when=lambda _task, _plan: (),  # nothing depends on other nodes
            batch_node_order=scores if self._weight else None,
            pre_bind=nodes.preparation,
            moved=nodes.moved,
        )
