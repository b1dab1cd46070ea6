"""`vcctl explain` and `vcctl job explain`: why a Job waits."""

from __future__ import annotations

from typing import Final

from pyroclast.api.types import QUEUES, Key
from pyroclast.kube.errors import Forbidden, NotFound
from pyroclast.views.explanation import explanation, explanation_lines
from pyroclast.views.jobs import view_of
from pyroclast_cli.context import Context
from pyroclast_cli.tree import Leaf
from pyroclast_cli.views.output import OUTPUT, write_one
from pyroclast_cli.views.reading import group_of, read_groups, schedulers_at_work
from pyroclast_cli.views.scope import NAMESPACE, named_job

__all__ = ["EXPLAIN"]

NEVER: Final = 3


async def _explain(context: Context) -> int:
    key, job = await named_job(context)
    view = view_of(job, await group_of(context.client, job), await schedulers_at_work(context.client))
    try:
        queue = await context.client.get(QUEUES, Key("", view.queue))
    except (NotFound, Forbidden):
        queue = None
    reading = await read_groups(context.client, key.namespace)
    answer = explanation(view, queue, reading, context.client.now())
    write_one(context, answer, explanation_lines(answer), reference=f"vcjob.batch.volcano.sh/{key.name}")
    return NEVER if answer["never"] else 0


EXPLAIN: Final = Leaf(
    "explain",
    "tell why a Job waits: 0 waits or runs, 3 waits for what never comes, 4 there is no such Job",
    _explain,
    (NAMESPACE, OUTPUT),
    takes="NAME",
    is_ours=True,
)
