"""Admission policies: what is made from them is current, and it is well-formed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyroclast.rules.policies import MUTATING, VALIDATING, mutating_manifests, validating_manifests
from pyroclast_admission.policies import files

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("path", "content"), files().items())
def test_generated_admission_policy_files_are_up_to_date(path: str, content: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == content, "stale: run `python -m pyroclast_admission.policies`"


def test_each_policy_has_a_binding_and_each_check_a_message() -> None:
    manifests = [*validating_manifests(exempt=("kube-system",)), *mutating_manifests(exempt=("kube-system",))]
    policies = {each["metadata"]["name"] for each in manifests if not each["kind"].endswith("Binding")}
    bound = {each["spec"]["policyName"] for each in manifests if each["kind"].endswith("Binding")}
    assert policies == bound == {policy.name for policy in (*VALIDATING, *MUTATING)}
    for policy in VALIDATING:
        rules = [validation.rule for validation in policy.validations]
        assert len(set(rules)) == len(rules)
        assert all("\n" not in validation.message and validation.message for validation in policy.validations)


def test_admission_policies_contain_the_configured_scheduler_names() -> None:
    text = str(mutating_manifests(scheduler="mine")) + str(validating_manifests(schedulers=("mine", "yours")))
    assert '"mine"' in text
    assert "in ['mine', 'yours']" in text
    assert "SCHEDULER" not in text
