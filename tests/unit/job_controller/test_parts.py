"""Small parts of the controller: pace, selection, batches, settings, and what the process costs."""

import asyncio

import pytest

from pyroclast.kube.basics.errors import Forbidden, ServerError, is_terminating_namespace, is_transient
from pyroclast.kube.http.batches import FIRST_BATCH, MOST_AT_ONCE, at_once, slow_start
from pyroclast.runtime.fields import is_enabled
from pyroclast.runtime.reconciler import LONGEST, SHORTEST, Pace
from pyroclast.runtime.settings import parse
from pyroclast_job_controller.settings import ControllerSettings


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_first_status_write_is_immediate_and_the_next_waits():
    clock = Clock()
    pace = Pace(clock)
    assert pace.wait() == 0
    pace.written()
    assert pace.wait() == pytest.approx(SHORTEST)


def test_a_status_that_changes_all_the_time_is_written_ever_more_rarely():
    clock = Clock()
    pace = Pace(clock)
    pace.written()
    waits = []
    for _ in range(6):
        waits.append(pace.wait())
        clock.now += pace.wait()
        pace.written()
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, LONGEST, LONGEST])
    clock.now += 3 * LONGEST
    assert pace.wait() == 0
    pace.written()
    assert pace.wait() == pytest.approx(SHORTEST)


@pytest.mark.parametrize(
    ("selection", "want"),
    [
        ((), True),
        (("*",), True),
        (("*", "-job-controller"), False),
        (("-job-controller", "+job-controller"), False),
        (("+job-controller",), True),
        (("job-controller",), True),
        (("gc-controller",), False),
        (("*, -job-controller",), False),
    ],
)
def test_controllers_option_decides_whether_a_controller_is_enabled(selection, want):
    assert is_enabled("job-controller", selection) is want


def test_controller_settings_accept_the_flags_of_volcano():
    flags = ["--worker_threads=4", "--controllers=*,-gc-controller", "--max-requeue-num=-1", "--v=4"]
    settings = parse(ControllerSettings, flags, "test")
    assert (settings.worker_threads, settings.controllers, settings.max_requeue_num) == (4, ("*", "-gc-controller"), -1)
    assert (settings.leader_elect_resource_name, settings.scheduler_name) == ("vc-controller-manager", ("volcano",))


def test_controllers_option_that_enables_and_disables_a_controller_is_refused(capsys):
    with pytest.raises(SystemExit):
        parse(ControllerSettings, ["--controllers=gc-controller,-gc-controller"], "test")
    assert "controllers option gc-controller cannot have both '-' and '+' prefixes" in capsys.readouterr().err


async def test_slow_start_stops_after_a_batch_that_fails():
    tried = []

    async def action(number):
        tried.append(number)
        if number == 10:
            raise Forbidden(403, "Forbidden", "exceeded quota")

    errors = await slow_start(range(100), action)
    assert [error.message for error in errors] == ["exceeded quota"]
    assert len(tried) == FIRST_BATCH + 2 * FIRST_BATCH


async def test_at_once_runs_actions_concurrently_and_raises_unexpected_errors():
    running = asyncio.Event()

    async def wait(number):
        if number == 1:
            running.set()
        await running.wait()

    assert await at_once([0, 1], wait) == []

    async def crash(_):
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="a mistake of ours"):
        await at_once([0], crash)


def test_api_errors_are_classified_as_transient_or_from_a_terminating_namespace():
    assert is_transient(ServerError(500, "InternalError", "x"))
    assert not is_transient(Forbidden(403, "Forbidden", "x"))
    ending = Forbidden(403, "Forbidden", "x", details={"causes": [{"reason": "NamespaceTerminating"}]})
    assert is_terminating_namespace(ending)
    assert not is_terminating_namespace(Forbidden(403, "Forbidden", "x"))


async def test_at_once_limits_the_number_of_concurrent_actions() -> None:
    under_way = most = done = 0

    async def action(_: int) -> None:
        nonlocal under_way, most, done
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way, done = under_way - 1, done + 1

    assert await at_once(range(1000), action) == []
    assert (most, done) == (MOST_AT_ONCE, 1000)
