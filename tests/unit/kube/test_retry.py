from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyroclast.kube.basics.errors import ApiError, ConnectionFailed, KubeError
from pyroclast.kube.basics.retry import LONGEST_ASKED, Repeat, TokenBucket, jittered_backoff, pause_before_retry
from pyroclast.kube.http.caller import LineSplitter
from pyroclast.resources.backoff import Backoff

LATER = 3.0


def api(code: int, reason: str = "r", retry_after: float | None = None) -> ApiError:
    return ApiError.from_status(code, {"reason": reason}, retry_after=retry_after)


@pytest.mark.parametrize(
    ("error", "harmless", "doubles"),
    [
        pytest.param(ConnectionFailed("refused", sent=False), 1, 1, id="never sent"),
        pytest.param(ConnectionFailed("reset"), 1, None, id="answer lost"),
        pytest.param(api(429), None, None, id="429 that means no"),
        pytest.param(api(429, retry_after=LATER), LATER + 1, LATER + 1, id="429 that means later"),
        pytest.param(api(429, retry_after=32.0), LONGEST_ASKED + 1, LONGEST_ASKED + 1, id="429 that means much later"),
        pytest.param(api(503), 1, None, id="503"),
        pytest.param(api(503, retry_after=LATER), LATER + 1, None, id="503 with Retry-After"),
        pytest.param(api(500, "InternalError"), 1, None, id="500, such as a webhook that fails"),
        pytest.param(api(500, ""), None, None, id="500 without a reason: a malformed request"),
        *(pytest.param(api(code), None, None, id=str(code)) for code in (400, 401, 403, 404, 405, 409, 410, 413, 415, 422)),
    ],
)
def test_pause_before_retry_depends_on_the_error_and_the_repeat_mode(
    error: KubeError, harmless: float | None, doubles: float | None
) -> None:
    def pause(repeat: Repeat) -> float | None:
        return pause_before_retry(error, repeat, Backoff(1.0, 1.0))

    assert pause(Repeat.HARMLESS) == harmless
    assert pause(Repeat.DOUBLES) == doubles


@given(st.integers(0, 200), st.floats(0.001, 10), st.floats(10, 100), st.floats(0, 1))
def test_backoff_grows_to_its_bound(failures: int, first: float, most: float, jitter: float) -> None:
    backoff = Backoff(first, most, lambda: jitter, failures)
    whole = min(first * 2.0 ** min(failures, 60), most)
    assert backoff.after(failures) == whole
    assert backoff.next() == whole * (1 - jitter)
    assert backoff.failures == failures + 1
    backoff.reset()
    assert backoff.next() == first * (1 - jitter)


def test_the_jitter_of_a_retry_is_at_most_a_half() -> None:
    pauses = [jittered_backoff(1.0, 8.0).next() for _ in range(200)]
    assert all(0.5 <= pause <= 1.0 for pause in pauses)
    assert len(set(pauses)) > 100


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line and line), max_size=20), st.data())
def test_line_splitter_yields_the_same_lines_for_any_chunks(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = LineSplitter()
    found = [
        line for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True) for line in splitter.feed(stream[begin:end])
    ]
    assert found == lines
    assert splitter.rest == b"rest"


def test_a_line_longer_than_the_limit_raises_connection_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyroclast.kube.http.caller.LONGEST_LINE", 10)
    splitter = LineSplitter()
    splitter.feed(b"1234567890")
    with pytest.raises(ConnectionFailed, match="longer than 10 bytes"):
        splitter.feed(b"1")


@given(st.lists(st.floats(0, 5), max_size=60), st.floats(0.1, 10), st.integers(1, 10))
def test_a_bucket_never_gives_more_than_its_rate(pauses: list[float], rate: float, burst: int) -> None:
    bucket, now, taken = TokenBucket(rate, burst), 0.0, []
    for pause in pauses:
        now += pause
        if bucket.take(now):
            taken.append(now)
    for first, begin in enumerate(taken):
        assert len([at for at in taken[first:] if at <= begin + 1.0]) <= burst + rate + 1


def test_token_bucket_reservations_are_spaced_by_the_rate() -> None:
    bucket = TokenBucket(2.0, 1)
    assert [bucket.reserve(0.0) for _ in range(3)] == [0.0, 0.5, 1.0]
    assert bucket.reserve(10.0) == 0.0
