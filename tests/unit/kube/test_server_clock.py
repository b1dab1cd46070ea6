"""Time is counted by the clock of the API server, however wrong our own is."""

import pytest

from pyroclast.kube.http.transport import ServerClock

AT = 1_700_000_000.0
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


@pytest.mark.parametrize(
    ("ours", "date", "want"),
    [
        pytest.param(AT, DATE, AT, id="the-same"),
        pytest.param(AT + 2, DATE, AT + 2, id="within-what-a-date-can-tell"),
        pytest.param(AT - 300, DATE, AT + 0.5, id="ours-is-slow"),
        pytest.param(AT + 300, DATE, AT + 0.5, id="ours-is-fast"),
        pytest.param(AT + 300, "", AT + 300, id="no-date"),
        pytest.param(AT + 300, "yesterday", AT + 300, id="no-date-that-can-be-read"),
    ],
)
def test_now_follows_the_server_date_when_the_local_clock_is_wrong(ours, date, want):
    clock = ServerClock(lambda: ours)
    clock.answered(date)
    assert clock.now() == want


def test_a_local_clock_is_used_again_after_it_is_set_right():
    times = {"ours": AT - 300, "clock": 0.0}
    clock = ServerClock(lambda: times["ours"], lambda: times["clock"])
    clock.answered(DATE)
    assert clock.now() == AT + 0.5
    times.update(ours=AT, clock=11.0)
    clock.answered(DATE)
    assert clock.now() == AT
