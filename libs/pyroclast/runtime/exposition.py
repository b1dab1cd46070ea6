"""Metrics in the text format of Prometheus, and a counter with an exact name.

The library appends `_total` to the name of each counter. Dashboards and alerts for Volcano query counters by Volcano's names, so
the names must be exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ExactCounter(Counter):
    """A counter whose series has exactly the name of the counter."""

    def _child_samples(self) -> Iterable[Sample]:
        return [
            Sample(sample.name.removesuffix("_total"), *sample[1:])
            for sample in super()._child_samples()
            if sample.name == "_total"
        ]


def render(registry: CollectorRegistry) -> bytes:
    """Return all metrics of `registry` in the text format 0.0.4."""
    lines: list[str] = []
    for metric in registry.collect():
        samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
        if samples:
            name = _family(metric, samples[0])
            lines.append(f"# HELP {name} {_escape(metric.documentation)}")
            lines.append(f"# TYPE {name} {'untyped' if metric.type == 'unknown' else metric.type}")
            lines += map(_line, samples)
    return ("\n".join(lines) + "\n").encode()


def _family(metric: Metric, sample: Sample) -> str:
    return sample.name if metric.type == "counter" else metric.name


def _line(sample: Any) -> str:  # noqa: ANN401 - a named tuple of the library
    labels = ",".join(f'{name}="{_escape(value, quote=True)}"' for name, value in sorted(sample.labels.items()))
    value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
    return f"{sample.name}{{{labels}}} {value}" if labels else f"{sample.name} {value}"


def _escape(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
