"""The book of jobs that wait, their order, and the annotation that says it."""

from __future__ import annotations

import random

import msgspec
import pytest

from pyroclast.api.waiting import MOST_BYTES, Waiting, ahead_step, read_waiting, written_waiting
from pyroclast.api.waiting_reasons import PendingReason
from pyroclast_scheduler.explaining.annotations import Turns, is_worth_a_write, waiting_of
from pyroclast_scheduler.explaining.book import PastCode, WaitingBook
from pyroclast_scheduler.model.causes import Shortage, WaitingRecord
from tests.counts import examples
from tests.scenarios import objects
from tests.scenarios.runner import feed
from tests.unit.scheduler.deciding import committed, configured
from tests.unit.scheduler.session.test_causes import CAPACITY, decide

FULL, MISSING = PendingReason.QUEUE_FULL, PendingReason.PODS_MISSING
SHORT = (Shortage("nvidia.com/gpu", "64", used="448", promised="16", limit="512"),)


def record(rank, code=FULL, *, queue="q", sentence="not now: it asks for 64 nvidia.com/gpu", short=SHORT):
    return WaitingRecord(code, sentence, queue, (-rank, f"u{rank}"), short)


def taken(book, records, now=100.0, *, seen=(), since=None):
    book.take(records, {*records, *seen}, now, since=since or {})
    return book


def test_waiting_jobs_of_a_queue_are_ordered_by_rank_and_jobs_ahead_are_counted():
    book = taken(WaitingBook(), {"a/low": record(1), "a/high": record(9), "b/mid": record(5), "a/other": record(7, queue="r")})
    assert list(book.order_of("q")) == ["a/high", "b/mid", "a/low"]
    assert [book.ahead(book.get(key)) for key in ("a/high", "b/mid", "a/low", "a/other")] == [0, 1, 2, 0]
    assert book.counts == {("q", FULL): 3, ("r", FULL): 1}
    taken(book, {"a/low": record(10)}, 101.0, seen=["a/high"])
    assert list(book.order_of("q")) == ["a/low", "b/mid"]
    assert book.get("a/high") is None


@pytest.mark.parametrize("seed", range(examples(20)))
def test_sorting_by_the_ranks_that_are_shown_gives_the_order_of_the_scheduler(seed):
    chance = random.Random(seed)
    held = [["held", "q", 1, {"phase": "Running", "minRes": {"cpu": 8}}]]
    waiting = [
        [f"j{number}", "q", chance.randint(1, 3), {"phase": "Pending", "minRes": {"cpu": 4}, "class": chance.randrange(4)}]
        for number in range(20)
    ]
    placed = [[f"{name}-0", name, f"n{chance.randint(1, 4)}", 1, "1Gi"] for name, *_ in waiting if chance.random() < 0.3]
    case = {"queues": [["q", {"capability": {"cpu": 8}}]], "podgroups": [*held, *waiting], "pods": placed}
    outcome, _ = decide(case, CAPACITY)
    book = WaitingBook()
    book.ranked_by = outcome.ranked_by
    book.take(outcome.records, outcome.seen, objects.NOW, since={})
    entries = book.between("q", 0, 99)
    assert len(entries) > 5
    assert {"priority", "drf"} <= set(book.ranks(entries[0]))
    ties = len(outcome.ranked_by)  # those of equal ranks go by age and uid
    assert entries == sorted(entries, key=lambda each: (*book.ranks(each).values(), each.record.rank[ties:]))
    assert entries != sorted(entries, key=lambda each: each.record.rank[ties:]), "the ranks count"


def test_the_trail_keeps_the_last_eight_reason_codes_with_their_times():
    book = taken(WaitingBook(), {"a/j": record(1)}, 100.0)
    taken(book, {"a/j": record(1, short=None)}, 160.0)
    entry = book.get("a/j")
    assert (entry.since, entry.seen, entry.short) == (100.0, 160.0, SHORT)
    for at in range(20):
        taken(book, {"a/j": record(1, (FULL, MISSING)[at % 2], short=())}, 200.0 + at)
    assert [(past.code, past.since) for past in entry.past][-2:] == [(FULL, 218.0), (MISSING, 219.0)]
    assert len(entry.past) == 8


def test_a_new_leader_keeps_since_if_the_reason_code_is_unchanged():
    book = taken(
        WaitingBook(),
        {"a/j": record(1), "a/k": record(2, MISSING)},
        since={"a/j": PastCode(FULL, 7.0), "a/k": PastCode(FULL, 8.0)},
    )
    assert (book.get("a/j").since, book.get("a/k").since) == (7.0, 100.0)


def test_the_queue_order_stays_sorted_through_random_additions_and_removals():
    chance, book, known = random.Random(5), WaitingBook(), {}
    for step in range(2000):
        key = f"n/j{chance.randrange(60)}"
        if chance.random() < 0.3:
            known.pop(key, None)
            taken(book, {}, float(step), seen=[key])
        else:
            known[key] = record(chance.randrange(40), chance.choice([FULL, MISSING]), queue=chance.choice("qr"))
            taken(book, {key: known[key]}, float(step))
    for queue in "qr":
        want = sorted((each.rank, key) for key, each in known.items() if each.queue == queue)
        assert list(book.order_of(queue)) == [key for _, key in want]
    assert sum(book.counts.values()) == len(known) == len(book)


def test_waiting_annotation_names_the_first_job_only_within_its_namespace():
    book = taken(WaitingBook(), {"a/first": record(9), "a/j": record(5), "b/k": record(4)})
    own, other = (waiting_of(book, book.get(key)) for key in ("a/j", "b/k"))
    assert (own.ahead, own.first, own.resource, own.asks, own.has, own.may) == (
        1,
        "a/first",
        "nvidia.com/gpu",
        "64",
        "448",
        "512",
    )
    assert (other.ahead, other.first) == (2, "")


@pytest.mark.parametrize(
    ("ahead", "want"), [(0, 0), (9, 9), (10, 10), (11, 10), (20, 20), (49, 20), (50, 50), (199, 100), (9999, 5000)]
)
def test_the_number_of_jobs_ahead_is_rounded_down_to_steps(ahead, want):
    assert ahead_step(ahead) == want


def test_waiting_annotation_is_rewritten_only_for_a_new_code_position_or_start():
    said = Waiting(code="QueueFull", ahead=3, seen="2026-01-01T00:00:00Z", has="5")
    assert not is_worth_a_write(said, msgspec.structs.replace(said, seen="2026-01-01T00:05:00Z", has="6"))
    assert is_worth_a_write(said, msgspec.structs.replace(said, code="ClusterFull"))
    assert is_worth_a_write(said, msgspec.structs.replace(said, ahead=2))
    start = tuple(f"2026-01-01T{hour:02}:00:00Z" for hour in (10, 11, 14))
    told = msgspec.structs.replace(said, start=start)
    assert is_worth_a_write(said, told)
    for hour, want in ((12, False), (13, False), (14, True)):
        moved = msgspec.structs.replace(told, start=(start[0], f"2026-01-01T{hour:02}:00:00Z", start[2]))
        assert is_worth_a_write(told, moved) is want


def test_the_longest_waiting_annotation_drops_its_basis_to_fit_the_size_limit():
    name = "n" * 63 + "/" + "j" * 253
    resource = "r" * 253 + "/" + "s" * 63
    start = tuple(f"2026-01-01T{hour:02}:00:00Z" for hour in (10, 11, 14))
    long = Waiting(
        code="TopologyTooNarrow", never=True, since=start[0], seen=start[1], resource=resource, asks="9" * 30, has="9" * 30,
        may="9" * 30, ahead=5000, first=name, start=start, basis="b" * 600,
    )  # fmt: skip
    text = written_waiting(long)
    assert len(text.encode()) <= MOST_BYTES
    assert read_waiting(text) == msgspec.structs.replace(long, basis="")
    assert read_waiting("{") is None


def test_each_due_job_is_returned_once_within_the_rest_period():
    turns, keys = Turns(), [f"k{i}" for i in range(7)]
    told = [turns.next(keys, lambda key: key != "k3", now, most=3) for now in range(12)]
    assert [key for key in told if key] == ["k0", "k1", "k2", "k4", "k5", "k6"]
    assert [key for now in range(400, 420) if (key := turns.next(keys, lambda key: key == "k3", now, most=3))] == ["k3"]


def messages(cache, port, commits):
    outcome, made = committed(cache.view(), configured(CAPACITY), now=objects.NOW + 100, period=3, waiting=port)
    commits += made
    return {key: (each.code, each.sentence, each.rank) for key, each in outcome.records.items()}


def test_idle_jobs_get_the_same_waiting_records_as_if_ranked_again():
    chance, told = random.Random(8), 0
    for _ in range(examples(120)):
        queues = [["q", {"capability": {"cpu": 6}}], ["r", {}]]
        groups = []
        for i in range(chance.randint(2, 12)):
            phase, asked = chance.choice(["Pending", "Inqueue"]), {"cpu": chance.randint(1, 9)}
            options = {"phase": phase, "class": chance.randint(0, 5), "minRes": asked}
            groups.append([f"g{i}", chance.choice("qr"), 1, options])
        outcome, cache = decide({"nodes": [["n1", 8, "9Gi"]], "queues": queues, "podgroups": groups}, CAPACITY)
        for key, status in outcome.statuses.items():
            cache.groups.believe(key, status)
        for key in outcome.retried:
            cache.retries.examine_again(key)
        for job in outcome.unschedulable:
            cache.retries.add(job)
        book = taken(WaitingBook(), outcome.records, seen=outcome.seen)
        name = f"g{chance.randrange(len(groups))}"
        group = next(each for each in groups if each[0] == name)
        group[3] = {**group[3], "class": 5 - group[3]["class"], "annotations": {"changed": "yes"}}
        feed(cache, {"podgroups": [group]})
        anew, known = messages(cache, None, []), messages(cache, book, [])
        assert anew == known
        told += len(known)
    assert told
