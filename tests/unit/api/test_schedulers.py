"""Which schedulers are at work, as their Leases tell."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pyroclast.api.schedulers import SCHEDULER_NAMES, schedulers_of

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
AT = NOW.timestamp()


def lease(name: str, *, age: float = 2.0, duration: int = 15, serves: str = "", holder: str = "me", space: str = "system") -> Any:
    renewed = datetime.fromtimestamp(AT - age, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    annotations = {SCHEDULER_NAMES: serves} if serves else {}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": renewed}
    return {"metadata": {"name": name, "namespace": space, "annotations": annotations}, "spec": spec}


CASES = {
    "a Lease serves its own name": ([lease("volcano")], "volcano", True),
    "no other": ([lease("volcano")], "volcan", False),
    "nor one that begins alike": ([lease("volcano-extra")], "volcano", False),
    "a member of a ring serves the name of all": ([lease("volcano-0", age=3600), lease("volcano-1")], "volcano", True),
    "a Lease may say whom it serves": ([lease("lock", serves="a, b")], "b", True),
    "and serves nobody else then": ([lease("lock", serves="a,b")], "lock", False),
    "the scheduler of Kubernetes has another name": ([lease("kube-scheduler")], "default-scheduler", True),
    "the newest of several counts": ([lease("a", space="x"), lease("a", space="y", age=3600)], "a", True),
    "29 s are a pause": ([lease("volcano", age=29)], "volcano", True),
    "31 s are silence": ([lease("volcano", age=31)], "volcano", False),
    "unless the leader renews more seldom": ([lease("volcano", age=50, duration=60)], "volcano", True),
    "one that was given back has 30 s to be taken": ([lease("volcano", age=20, duration=1, holder="")], "volcano", True),
    "one that nobody ever held is none": ([{"metadata": {"name": "volcano"}, "spec": {}}], "volcano", False),
    "nor is one without a time": ([{"metadata": {"name": "volcano"}, "spec": {"renewTime": "soon"}}], "volcano", False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_scheduler_name_is_live_only_if_a_recently_renewed_lease_serves_it(case: tuple[list[Any], str, bool]) -> None:
    leases, name, want = case
    found = schedulers_of(leases, AT)
    assert (name in found.live) is want
    assert (found.absence(name) == "") is want


def test_absence_message_names_the_running_schedulers() -> None:
    found = schedulers_of([lease("volcano", serves="volcano"), lease("kube-scheduler"), lease("cert-manager")], AT)
    want = 'no scheduler named "volcan" is at work; schedulers at work: default-scheduler, volcano'
    assert found.absence("volcan") == want


def test_absence_message_of_a_silent_leader_names_its_lease_and_last_renewal() -> None:
    found = schedulers_of([lease("volcano", age=60, serves="volcano")], AT)
    since = "2026-11-24T11:59:00.000000Z"
    want = f'scheduler "volcano" is silent: its Lease system/volcano was last renewed at {since}; schedulers at work: none'
    assert found.absence("volcano") == want
    assert found.is_known("volcano")


@pytest.mark.parametrize(("heard", "want"), [(AT - 5, True), (AT - 31, False)])
def test_observed_lease_renewal_overrides_the_renew_time_written_by_the_leader(heard: float, *, want: bool) -> None:
    ahead, behind = lease("volcano", age=-7200), lease("volcano", age=7200)
    for each in (ahead, behind):
        assert schedulers_of([each], AT, {"system/volcano": heard}).live == (frozenset({"volcano"}) if want else frozenset())
