"""The health of the services: one table of checks for the strip on each page, for `vcctl doctor` and for alerts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyroclast.api import keys
from pyroclast.api.schedulers import SCHEDULER_NAMES, SILENT_SECONDS
from pyroclast.lifecycle.times import format_time
from pyroclast.views.readable import clock_text, human_duration
from pyroclast.views.story import away_since

Facts = Mapping[str, Any]
"""What `pyroclast.kube.http.health_queries.read_health` returns: a text instead of a list says why the list is unknown."""

SLOW_SECONDS: Final = 1.0
MANY_EVICTIONS: Final = 6.0
"""Evictions per minute, as the mean of `EVICTION_MINUTES`."""
EVICTION_MINUTES: Final = 10
CERTIFICATE_DAYS: Final = 14
COMMAND_SECONDS: Final = 30
MOST_NAMES: Final = 3


class Unknown(Exception):
    """A check cannot be made. The message says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `find` returns the problems, each as a sentence with numbers; it raises Unknown without its facts.

    `meaning`: what is wrong, for alerts and the documentation. `help`: the command that helps.
    """

    name: str
    alert: str
    severity: str
    meaning: str
    help: str
    find: Callable[[Facts], Sequence[str]]


def _of(facts: Facts, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects of a source."""
    found = facts[name]
    if isinstance(found, str):
        raise Unknown(found)
    objects: Sequence[Mapping[str, Any]] = found
    return objects


def _leases(facts: Facts) -> list[tuple[str, Mapping[str, str], str]]:
    """Return our Leases: name, annotations and last renewal."""
    leases = [(each["metadata"], each.get("spec") or {}) for each in _of(facts, "leases")]
    named = [(meta["name"], meta.get("annotations") or {}, str(spec.get("renewTime") or "")) for meta, spec in leases]
    ours = [each for each in named if keys.SERVICE_VERSION in each[1]]
    if not ours:
        raise Unknown("no Lease of a service of ours is there")
    return ours


def _silent(facts: Facts) -> list[str]:
    leases = _leases(facts)
    never = [] if any(SCHEDULER_NAMES in said for _, said, _ in leases) else ["no scheduler has ever led: none has a Lease"]
    return never + [f"{name} is silent since {_clock(at)}" for name, _, at in leases if _age(at, facts) > SILENT_SECONDS]


def _reported(check: str) -> Callable[[Facts], list[str]]:
    """Return the finder of what services report of themselves on their Leases, as `CHECK SINCE TEXT`."""

    def find(facts: Facts) -> list[str]:
        told = [(name, said.get(keys.SERVICE_PROBLEM, "").split(" ", 2)) for name, said, _ in _leases(facts)]
        return [f"{name}: {parts[2]}, since {_clock(parts[1])}" for name, parts in told if parts[0] == check and len(parts) > 2]

    return find


def _nodes_away(facts: Facts) -> list[str]:
    away = {each["metadata"]["name"]: since for each in _of(facts, "nodes") if (since := away_since(each))}
    if not away:
        return []
    names = [f"{name} since {_clock(since)}" for name, since in sorted(away.items())]
    try:
        owners = {_owner(pod) for pod in _of(facts, "pods") if (pod.get("status") or {}).get("phase") in {"Running", "Pending"}}
        jobs = f"{len(owners - {None})} Jobs"
    except Unknown as error:
        jobs = f"an unknown number of Jobs ({error})"
    verb = "is" if len(away) == 1 else "are"
    return [f"{len(away)} of {len(_of(facts, 'nodes'))} nodes {verb} away with {jobs}: {_some(names)}"]


def _evictions(facts: Facts) -> list[str]:
    recent = 0
    for event in _of(facts, "evictions"):
        if (event.get("involvedObject") or {}).get("kind") == "Pod" and _age(_seen(event), facts) <= 60 * EVICTION_MINUTES:
            recent += int((event.get("series") or {}).get("count") or event.get("count") or 1)
    rate = recent / EVICTION_MINUTES
    return [f"{rate:.1f} evictions per minute, {recent} in {EVICTION_MINUTES} minutes"] if rate >= MANY_EVICTIONS else []


def _certificates(facts: Facts) -> list[str]:
    found = []
    for address, (_, expires) in facts["probes"].items():
        if expires is not None and expires - facts["now"] < CERTIFICATE_DAYS * 86_400:
            left = max(0.0, expires - facts["now"])
            found.append(f"the certificate of {address} expires in {human_duration(left)}, at {format_time(expires)}")
    if not facts["probes"]:
        raise Unknown("no webhook can be reached from here")
    return found


def _webhooks(facts: Facts) -> list[str]:
    installed = [each for kind in ("validating", "mutating") for each in _of(facts, kind)]
    wanted = {str((each["metadata"].get("annotations") or {}).get(keys.WEBHOOKS) or "") for each in installed} - {""}
    most = max((int(each) for each in wanted if each.isdecimal() and len(each) < 6), default=0)
    found = [f"{most - len(installed)} of {most} webhook configurations are missing"] if len(installed) < most else []
    if facts["review"]:
        return [*found, f"the API server gets no answer of webhooks: {facts['review'][:200]}"]
    return found + [f"the webhooks at {address} do not answer: {why}" for address, (why, _) in facts["probes"].items() if why]


def _slow(facts: Facts) -> list[str]:
    took = facts["seconds"]
    if isinstance(facts["leases"], str) and took >= SLOW_SECONDS:
        return [f"the API server gave no list of Leases in {took:.1f} s: {facts['leases']}"]
    return [f"the API server took {took:.1f} s for a list of Leases, {SLOW_SECONDS:g} s at most"] if took >= SLOW_SECONDS else []


def _versions(facts: Facts) -> list[str]:
    by_version: dict[str, list[str]] = {}
    for name, said, _ in _leases(facts):
        by_version.setdefault(said[keys.SERVICE_VERSION], []).append(name)
    parts = [f"{version}: {_some(sorted(names))}" for version, names in sorted(by_version.items())]
    return [f"{len(parts)} versions are at work: {'; '.join(parts)}"] if len(parts) > 1 else []


def _owners(facts: Facts) -> list[str]:
    rivals = [each for each in _of(facts, "deployments") if (each.get("spec") or {}).get("replicas", 1)]
    names = [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in rivals]
    return [f"{len(names)} programs of Volcano work beside ours: {_some(sorted(names))}"] if names else []


def _commands(facts: Facts) -> list[str]:
    old = [each["metadata"] for each in _of(facts, "commands")]
    old = [meta for meta in old if _age(str(meta.get("creationTimestamp") or ""), facts) > COMMAND_SECONDS]
    unmarked = sum(keys.AUTHORIZED_FOR not in (meta.get("annotations") or {}) for meta in old)
    if not old:
        return []
    first = min(str(meta["creationTimestamp"]) for meta in old)
    without = f", {unmarked} of them without the mark of admission" if unmarked else ""
    return [f"{len(old)} Commands are not carried out for over {COMMAND_SECONDS} s{without}; the oldest is of {_clock(first)}"]


CHECKS: Final = (
    Check(
        *("service-silent", "PyroclastServiceSilent", "critical", "A service has not renewed its Lease."),
        *("kubectl -n pyroclast-system get pods, and the log of the service", _silent),
    ),
    Check(
        *("configuration-refused", "PyroclastConfigurationRefused", "warning"),
        "The scheduler refuses its configuration file and decides by the last good one.",
        *("correct the line that is named", _reported("configuration")),
    ),
    Check(
        *("recorder-cannot-write", "PyroclastRecorderCannotWrite", "critical"),
        "The recorder cannot write: its disk is full, or its database does not answer.",
        *("the log of the recorder; df on its volume", _reported("database")),
    ),
    Check(
        *("nodes-away", "PyroclastNodesAway", "warning", "Nodes are not ready."),
        *("vcctl nodes; vcctl explain node/NODE", _nodes_away),
    ),
    Check(
        *("evictions", "PyroclastManyEvictions", "warning", "Many pods are evicted."),
        *("vcctl report evictions --since 1h", _evictions),
    ),
    Check(
        *("certificates", "PyroclastCertificatesExpire", "critical", "The certificate of the webhooks expires soon."),
        *("docs/how-to/rotate-certificates.md", _certificates),
    ),
    Check(
        *("webhooks", "PyroclastWebhooksSilent", "critical", "Webhooks do not answer, or their configurations are missing."),
        *("the log of the admission service; helm upgrade", _webhooks),
    ),
    Check(
        *("api-server-slow", "PyroclastApiServerSlow", "warning", "The API server is slow."),
        *("the load of the API server and of etcd", _slow),
    ),
    Check(
        *("versions-differ", "PyroclastVersionsDiffer", "info", "Services of different versions are at work."),
        *("wait for the end of the upgrade, or run helm upgrade", _versions),
    ),
    Check(
        *("two-owners", "PyroclastTwoOwners", "critical", "Programs of Volcano work beside those of Pyroclast."),
        *("scale the Deployments to 0, or uninstall one of the two", _owners),
    ),
    Check(
        *("commands-wait", "PyroclastCommandsWait", "warning", "Commands of users are not carried out."),
        *("the log of the job controller; kubectl get commands -A", _commands),
    ),
)
"""All checks, in the order in which they are read at night."""


def judged(facts: Facts) -> list[dict[str, Any]]:
    """Return the result of each check: `state` is `ok`, `wrong` or `unknown`, and `text` says what was found."""
    results = []
    for check in CHECKS:
        try:
            found = list(check.find(facts))
            state, text = ("wrong", "; ".join(found)) if found else ("ok", "")
        except Unknown as error:
            state, text = "unknown", f"not known, because {error}"
        fields = {"check": check.name, "state": state, "severity": check.severity, "text": text, "help": check.help}
        results.append({**fields, "runbook": f"docs/reference/alerts.md#{check.alert.lower()}"})
    return results


def _age(at: str, facts: Facts) -> float:
    try:
        return float(facts["now"]) - datetime.fromisoformat(at).timestamp()
    except ValueError:
        return float("inf")


def _seen(event: Mapping[str, Any]) -> str:
    return str((event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def _owner(pod: Mapping[str, Any]) -> str | None:
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each.get("uid")) for each in owners if each.get("controller")), None)


def _clock(at: str) -> str:
    try:
        return clock_text(at, seconds=True)
    except ValueError:
        return at


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
