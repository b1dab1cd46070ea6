"""Answers admission reviews by the rules, with metrics, traces and protection from overload.

Where a denial depends on cached objects that may be out of date, the engine first reads the objects from the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from operator import itemgetter
from typing import Any, Final

import msgspec
import structlog
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pyroclast.kube.basics.errors import KubeError
from pyroclast.rules.values import mapping
from pyroclast.runtime.traces import ANNOTATION, Traces, context_of
from pyroclast_admission.handlers import Webhook, answer
from pyroclast_admission.known import Known
from pyroclast_admission.lookup import Doubt, View, noting, with_read
from pyroclast_admission.review import Answer, BadReview, Review, decode, encode, refusal

BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)


class ReviewMetrics:
    """Counts reviews by webhook and outcome (`allowed`, `denied`, `bad`, `shed`), and measures the seconds until an answer.

    `missing`: the number of webhook configurations that are not installed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reviews = Counter(
            "pyroclast_admission_reviews_total", "Reviews answered", ["webhook", "outcome"], registry=registry
        )
        self._seconds = Histogram(
            "pyroclast_admission_review_duration_seconds",
            "How long answers took",
            ["webhook"],
            registry=registry,
            buckets=BUCKETS,
        )
        self.missing = Gauge(
            "pyroclast_admission_webhooks_missing",
            "Webhook configurations that are not installed, so that objects are accepted without a review",
            registry=registry,
        )
        self._counter, self._histogram = cache(self._reviews.labels), cache(self._seconds.labels)

    def count(self, webhook: str, outcome: str) -> None:
        """Count one review by `webhook` with this outcome."""
        self._counter(webhook, outcome).inc()

    def took(self, webhook: str, seconds: float) -> None:
        """Record that one review by `webhook` took `seconds`."""
        self._histogram(webhook).observe(seconds)


SHED_ABOVE_SECONDS: Final = 2.0
"""Delay of the event loop in seconds from which reviews are refused. The API server waits 10 s at most, often only 5 s."""

RECOVERED_BELOW_SECONDS: Final = 0.5
"""Delay in seconds below which reviews are accepted again. A limit well below the other one avoids flapping."""

PERIOD_SECONDS: Final = 0.1


class Overload:
    """Measures the delay of the event loop, which is the time that a request waits before it is handled."""

    def __init__(self) -> None:
        self.sheds = False

    def observe(self, lag_seconds: float) -> None:
        """Set `sheds` from one measured delay of the loop."""
        self.sheds = lag_seconds > SHED_ABOVE_SECONDS or (self.sheds and lag_seconds >= RECOVERED_BELOW_SECONDS)

    async def run(self) -> None:
        """Measure the delay until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD_SECONDS
            await asyncio.sleep(PERIOD_SECONDS)
            self.observe(loop.time() - due)


def trace_of(given: Mapping[str, Any]) -> str:
    """Return the trace context in the annotations of an object. The text is empty when the object has none."""
    annotation = _annotations(given).get(ANNOTATION)
    return context_of({ANNOTATION: annotation}) if isinstance(annotation, str) else ""


def with_trace(answer: Answer, given: Mapping[str, Any], context: Mapping[str, str]) -> Answer:
    """Return `answer` with a patch that adds `context` to the annotations of the object, unless it has a trace context."""
    if not context or not answer.verdict.allowed or not isinstance(given.get("metadata"), dict) or trace_of(given):
        return answer
    annotations = {**_annotations(given), **context}
    return replace(answer, patch=[*answer.patch, {"op": "add", "path": "/metadata/annotations", "value": annotations}])


def _annotations(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(given.get("metadata")).get("annotations"))


log = structlog.get_logger()

LARGE_BODY: Final = 64 * 1024
"""Size in bytes from which a review is handled in a thread.

Such a review may take more than 10 ms, and other reviews are answered meanwhile.
"""

HUGE_BODY: Final = 512 * 1024
"""Size in bytes from which a review is handled in a thread of its own kind, so that it delays no smaller one."""

MAX_LARGE: Final = 8
"""Most reviews that wait for each thread. A further one is refused, and its client is asked to try again."""

MAX_READ: Final = 32
"""Most objects that are read before a denial. A denial that depends on more objects is decided from the caches."""

RETRY_SECONDS: Final = 1

BEGINS_TRACE: Final = "/jobs/mutate"
"""The path of the webhook that begins the trace of a Job."""

TRACED: Final = {BEGINS_TRACE: "admission.mutate", "/jobs/validate": "admission.validate"}
"""The name of the span for the review of a new Job, by webhook path."""

Fetch = Callable[[Doubt], Awaitable[View | None]]
Authorize = Callable[[Review], Awaitable[Answer | None]]
MayUse = Callable[[Review, Sequence[str]], Awaitable[Answer | None]]


class Reply(msgspec.Struct, frozen=True):
    """An HTTP answer."""

    status: int
    body: bytes
    content_type: str = "application/json"


class Engine:
    """Answers admission reviews. The only asynchronous steps are the reads before a denial and the thread for large reviews.

    `known` returns the current objects and options, for each review. `fetch` reads one object from the API server. `authorize`
    returns the denial of a request whose user lacks rights; `may_use` that of a user who may not use some of the queues, and is
    None where everyone may use every queue.
    """

    def __init__(
        self,
        webhooks: Iterable[Webhook],
        known: Callable[[], Known],
        fetch: Fetch,
        *,
        authorize: Authorize,
        may_use: MayUse | None = None,
        overload: Overload,
        metrics: ReviewMetrics,
        traces: Traces | None = None,
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        self._known, self._fetch, self._overload, self._metrics = known, fetch, overload, metrics
        self._authorize, self._may_use = authorize, may_use
        self._traces = traces or Traces("admission")
        self._large, self._huge = _Thread("large-review"), _Thread("huge-review")

    def serves(self, path: str) -> bool:
        """Whether a webhook is served at `path`."""
        return path in self._webhooks

    async def reply(self, path: str, body: bytes) -> Reply:
        """Return the answer to the AdmissionReview `body` that was posted to `path`."""
        webhook = self._webhooks[path]
        thread = None if len(body) < LARGE_BODY else self._large if len(body) < HUGE_BODY else self._huge
        try:
            if self._overload.sheds or (thread is not None and thread.waiting >= MAX_LARGE):
                return self._shed(webhook, decode(body))
            if thread is not None and not webhook.is_authorized:
                return await self._reply_large(webhook, body, thread)
            return await self._reply(webhook, decode(body))
        except BadReview as bad:
            self._metrics.count(path, "bad")
            return Reply(400, f"{bad}\n".encode(), "text/plain; charset=utf-8")

    def close(self) -> None:
        """Shut down the threads for large reviews."""
        for thread in (self._large, self._huge):
            thread.executor.shutdown(wait=False, cancel_futures=True)

    async def _reply(self, webhook: Webhook, review: Review) -> Reply:
        is_traced = self._traces.are_taken and webhook.path in TRACED and review.operation == "CREATE"
        result = await (self._traced(webhook, review) if is_traced else self._answer(webhook, review))
        self._count(webhook, result)
        return _encoded(webhook, review, result)

    async def _traced(self, webhook: Webhook, review: Review) -> Answer:
        with self._traces.span(TRACED[webhook.path], trace_of(review.object)):
            result = await self._answer(webhook, review)
            return with_trace(result, review.object, self._traces.annotations()) if webhook.path == BEGINS_TRACE else result

    async def _answer(self, webhook: Webhook, review: Review) -> Answer:
        if webhook.is_authorized and review.operation == "CREATE" and (denial := await self._authorize(review)) is not None:
            return denial
        doubts: set[Doubt] = set()
        result = answer(webhook, review, noting(self._known(), doubts))
        is_all_well = result.verdict.allowed and not (webhook.is_advice and result.verdict.warnings)
        if not is_all_well and 0 < len(doubts) <= MAX_READ:
            result = await self._answer_afresh(webhook, review, sorted(doubts, key=itemgetter(1)))
        return await self._with_use(review, result)

    async def _with_use(self, review: Review, result: Answer) -> Answer:
        """Return `result`, or the denial of a user who may not use the queues in it."""
        if not result.queues or self._may_use is None:
            return result
        return await self._may_use(review, result.queues) or result

    async def _answer_afresh(self, webhook: Webhook, review: Review, doubts: Sequence[Doubt]) -> Answer:
        """Read the objects in `doubts` from the API server, then return the answer that follows from them."""
        try:
            read = dict(zip(doubts, await asyncio.gather(*map(self._fetch, doubts)), strict=True))
        except KubeError as error:
            if webhook.is_advice:
                return Answer()
            kind, key = doubts[0]
            message = f"{kind.kind.lower()} {key.name} cannot be looked up now, try again: {error.message}"
            return refusal(message, code=503, reason="ServiceUnavailable", retry_after_seconds=RETRY_SECONDS)
        return answer(webhook, review, with_read(self._known(), read))

    async def _reply_large(self, webhook: Webhook, body: bytes, thread: _Thread) -> Reply:

        def work() -> tuple[Review, Answer, Reply]:
            review = decode(body)
            result = answer(webhook, review, self._known())
            return review, result, _encoded(webhook, review, result)

        thread.waiting += 1
        try:
            review, result, reply = await asyncio.get_running_loop().run_in_executor(thread.executor, work)
        finally:
            thread.waiting -= 1
        checked = await self._with_use(review, result)
        self._count(webhook, checked)
        return reply if checked is result else _encoded(webhook, review, checked)

    def _shed(self, webhook: Webhook, review: Review) -> Reply:
        self._metrics.count(webhook.path, "shed")
        message = "the admission service has more requests than it can answer in time, try again"
        shed = refusal(message, code=429, reason="TooManyRequests", retry_after_seconds=RETRY_SECONDS)
        return Reply(200, encode(review, Answer() if webhook.is_advice else shed))

    def _count(self, webhook: Webhook, result: Answer) -> None:
        self._metrics.count(webhook.path, "allowed" if result.verdict.allowed else "denied")


class _Thread:
    """A thread that answers large reviews one after another; `waiting`: how many are there."""

    def __init__(self, name: str) -> None:
        self.executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self.waiting = 0


def _encoded(webhook: Webhook, review: Review, result: Answer) -> Reply:
    verdict = result.verdict
    if not verdict.allowed:
        key = f"{review.namespace}/{review.name}" if review.namespace else review.name
        log.info("review.denied", webhook=webhook.path, operation=review.operation, key=key, reason=verdict.message[:200])
    return Reply(200, encode(review, result))
