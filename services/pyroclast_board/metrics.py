"""The metrics of the board itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, Histogram


class BoardMetrics:
    """Counts requests and streams. The metrics are registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._streams = Gauge("pyroclast_board_streams", "Pages that are followed live", ["page"], registry=registry)
        self._requests = Histogram(
            "pyroclast_board_request_seconds",
            "From a request to its answer",
            ["page"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )

    def stream(self, page: str, change: int) -> None:
        """Count the start (1) or the end (-1) of a stream."""
        self._streams.labels(page).inc(change)

    def answered(self, page: str, seconds: float) -> None:
        """Record that one request for `page` was answered in `seconds`."""
        self._requests.labels(page).observe(seconds)
