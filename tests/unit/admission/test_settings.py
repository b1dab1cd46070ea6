"""Which job plugins admission takes: ours, those that its flags name, and those that are installed beside it."""

from __future__ import annotations

from importlib import metadata

import pytest

from pyroclast.api.jobplugins import BUILT_IN, ENTRY_POINTS
from pyroclast_admission.settings import AdmissionSettings


def test_job_plugins_are_the_built_in_configured_and_installed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [metadata.EntryPoint("stamp", "somewhere:Stamp", ENTRY_POINTS)]
    monkeypatch.setattr(metadata, "entry_points", lambda group: installed if group == ENTRY_POINTS else [])
    given = AdmissionSettings(webhook_url="https://here", job_plugins="audit, trace")
    assert given.options().jobs.plugins == (*BUILT_IN, "audit", "trace", "stamp")
