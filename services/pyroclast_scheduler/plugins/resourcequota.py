"""Plugin resourcequota: a job is enqueued only if the ResourceQuotas of its namespace have room for its minimum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from pyroclast.api import records
from pyroclast.api.types import RESOURCE_QUOTAS
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast.resources import quantity
from pyroclast.resources.quantity import ZERO, Quantity, QuantityError
from pyroclast_scheduler.model.causes import Cause
from pyroclast_scheduler.model.jobs import Job
from pyroclast_scheduler.model.objects import Watch
from pyroclast_scheduler.model.triggers import Trigger
from pyroclast_scheduler.session.arguments import Arguments
from pyroclast_scheduler.session.extension_points import Extensions, Vote
from pyroclast_scheduler.session.plugin_session import PluginSession

_Amounts = Mapping[str, Quantity]


class ResourceQuota:
    """A quota of `requests.cpu` limits a minimum of `requests.cpu`, not of `cpu`. The scopes of quotas are ignored."""

    watches = (Watch(RESOURCE_QUOTAS, records.ResourceQuota),)

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: PluginSession) -> Extensions:
        """Return the extensions of this plugin for one session."""
        quotas: dict[str, list[tuple[_Amounts, _Amounts]]] = defaultdict(list)
        for quota in session.objects(records.ResourceQuota).values():
            status = quota.status
            quotas[quota.metadata.namespace].append((_amounts(status.hard), _amounts(status.used)))
            wrong = [*_unreadable("hard", status.hard), *_unreadable("used", status.used)]
            if wrong:
                session.fault(RESOURCE_QUOTAS, quota, "; ".join(wrong))
        entering: dict[str, dict[str, Quantity]] = defaultdict(dict)

        def vote(job: Job) -> Vote:
            minimum = _minimum(job)
            for hard, used in quotas.get(job.facts.namespace, ()) if minimum else ():
                asked = {name: amount for name, amount in minimum.items() if name in hard}
                coming = entering[job.facts.namespace]
                taken = {name: used.get(name, ZERO) + coming.get(name, ZERO) for name in asked}
                if any(taken[name] + amount > hard[name] for name, amount in asked.items()):
                    limits = {name: hard[name] for name in asked}
                    numbers = f"requested: {_shown(asked)}, used: {_shown(taken)}, limited: {_shown(limits)}"
                    text = f"not now: a ResourceQuota of namespace {job.facts.namespace} has no room for it, {numbers}"
                    sentence = f"resource quota insufficient, {numbers}"
                    # a change of a quota wakes all jobs; jobs enqueued in this session only count in this session
                    retry_when = None if coming else frozenset[Trigger]()
                    cause = Cause(PendingReason.NAMESPACE_QUOTA, partial(str, text), sentence, retry_when=retry_when)
                    session.refuse(job, cause)
                    return Vote.REJECT
            return Vote.PERMIT

        def entered(job: Job) -> None:
            if job.facts.namespace in quotas:
                coming = entering[job.facts.namespace]
                for name, amount in _minimum(job).items():
                    coming[name] = coming.get(name, ZERO) + amount

        return Extensions(job_enqueueable=vote, job_enqueued=entered, is_enqueue_told=True)


def _minimum(job: Job) -> _Amounts:
    group = job.facts.group
    return {} if group.is_on_pod else _amounts(group.spec.min_resources or {})  # the quota counts a pod that exists


def _amounts(resources: Mapping[str, str | int]) -> _Amounts:
    """Return the valid quantities. An invalid one limits nothing."""
    found: dict[str, Quantity] = {}
    for name, text in resources.items():
        try:
            found[name] = quantity.parse(text)
        except QuantityError:
            continue
    return found


def _unreadable(where: str, resources: Mapping[str, str | int]) -> list[str]:
    """Return messages about the invalid quantities."""
    names = resources.keys() - _amounts(resources).keys()
    return [f"status.{where}.{name}: {str(resources[name])[:40]!r} is no quantity, and is passed over" for name in sorted(names)]


def _shown(amounts: _Amounts) -> str:
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))
