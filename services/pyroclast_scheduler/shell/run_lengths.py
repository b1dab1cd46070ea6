"""Reads the run times of Jobs, which the recorder writes to a ConfigMap."""

from __future__ import annotations

import structlog

from pyroclast.api import records
from pyroclast.api.run_lengths import CONFIG_MAP, DATA_KEY, BadRunLengths, RunLengths, read_run_lengths
from pyroclast.api.types import CONFIG_MAPS
from pyroclast.kube.http.client import Client
from pyroclast.kube.watch.informer import Informer
from pyroclast_scheduler.shell.estimates import Estimates

log = structlog.get_logger()


def follow_run_lengths(client: Client, namespace: str, estimates: Estimates) -> Informer[records.ConfigMap]:
    """Return an informer of the ConfigMap that updates `estimates`. A missing ConfigMap is no error."""
    informer = Informer(client, CONFIG_MAPS, records.ConfigMap, namespace=namespace, field_selector=f"metadata.name={CONFIG_MAP}")
    informer.on_change(lambda old, new: take_run_lengths(estimates, old, new))
    return informer


def take_run_lengths(estimates: Estimates, old: records.ConfigMap | None, new: records.ConfigMap | None) -> None:
    """Use the content of the ConfigMap. A malformed one is ignored, with one warning until it changes."""
    if new is None:
        estimates.recorded(RunLengths())
        return
    text = new.data.get(DATA_KEY, "")
    if old is not None and old.data.get(DATA_KEY, "") == text:
        return
    try:
        estimates.recorded(read_run_lengths(text))
    except BadRunLengths as error:
        log.warning("run_lengths.passed_over", configmap=str(new.metadata.key), error=str(error)[:500])
