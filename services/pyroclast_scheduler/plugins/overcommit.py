"""Plugin overcommit: jobs are enqueued up to a multiple of the resources of the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from pyroclast_scheduler.model import demand
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.triggers import AnyRoom, QueueUse, Trigger
from pyroclast_scheduler.session import enqueue_refusals
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession

_FACTOR: Final = 1.2
_ENDLESS: Final = 1e100  # a larger factor has no further effect and could overflow


class Overcommit:
    """Argument `overcommit-factor` (1.2, at least 1): the multiple of the cluster up to which jobs are enqueued."""

    def __init__(self, arguments: Arguments) -> None:
        self._factor = arguments.number("overcommit-factor", _FACTOR, least=1)

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        dimensions = session.dimensions
        used = session.columns.used[:, session.snapshot.is_ready].sum(axis=1, dtype=np.float64)
        idle = session.total * min(self._factor, _ENDLESS) - used
        excess = session.total * (min(self._factor, _ENDLESS) - 1)

        def enqueueable(job: Job) -> Vote:
            minimum = job.facts.minimum(dimensions)
            if minimum is None:
                return Vote.PERMIT
            kept = session.locked_to(job)
            room = idle if kept is None else idle - session.columns.idle(np.flatnonzero(kept)).sum(axis=1, dtype=np.float64)
            promised, late = session.promises.whole, session.promises.late(job)
            short = demand.short_rows(promised + minimum, room, minimum)
            if late is not None and not short and demand.short_rows(promised + late + minimum, room, minimum):
                # beside gangs that wait for particular nodes for long, only room that is really free is given
                short, promised = demand.short_rows(promised + minimum, room - excess, minimum), promised + late
            if not short:
                return Vote.PERMIT
            retry_when = frozenset[Trigger]({AnyRoom(), QueueUse()}) if kept is None else None
            cause = enqueue_refusals.by_cluster(session, job, short, used=used, promised=promised)
            session.refuse(job, replace(cause, retry_when=retry_when))
            return Vote.REJECT

        return Extensions(job_enqueueable=enqueueable, is_enqueue_told=True)
