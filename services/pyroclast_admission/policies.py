"""Writes the files that are generated from the admission policies: `python -m pyroclast_admission.policies` in a checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from pyroclast.rules.policies import mutating_manifests, validating_manifests
from pyroclast.rules.policies.page import coverage_page
from pyroclast.rules.policies.switched import (
    commands_manifests,
    described_groups_manifests,
    scheduler_manifests,
    seats_manifests,
)

SCHEDULER = '{{ default "volcano" .Values.custom.scheduler_name }}'
SCHEDULERS = '{{ include "pyroclast.schedulers" . }}'
JOB_PLUGINS = (
    '{{ range $i, $name := compact (splitList "," (nospace .Values.custom.job_plugins)) }}'
    '{{ if $i }}, {{ end }}"{{ $name }}"{{ end }}'
)
MAX_PODS = "{{ int .Values.custom.max_pods_per_job }}"
ALLOWS_PLACEMENT = "{{ .Values.custom.allow_job_placement }}"
NAMESPACE = "{{ .Release.Namespace }}"
RELEASE = "{{ .Release.Name }}"
VERSION = (
    '{{ if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}v1{{ else }}v1beta1{{ end }}'
)
WITH_POLICIES = (
    "and .Values.custom.account_policies_enable (or "
    '(.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") '
    '(not (.Capabilities.APIVersions.Has "v1/Pod")))'
)
"""As for the policies of accounts: without a cluster no kind is known, and every version that the chart is for has policies."""
NOTE = "{{- /* made by `python -m pyroclast_admission.policies`; do not edit */}}"


def files() -> dict[str, str]:
    """Return the content of each generated file, by its path from the root of the checkout."""
    exempt = (NAMESPACE, "kube-system")
    checks = validating_manifests(
        schedulers=(SCHEDULERS,),
        job_plugins=("JOB_PLUGINS",),
        exempt=exempt,
        namespace=NAMESPACE,
        max_pods=MAX_PODS,
        allows_placement=ALLOWS_PLACEMENT,
    )
    defaults = mutating_manifests(scheduler=SCHEDULER, exempt=exempt, namespace=NAMESPACE, version="VERSION")
    seats = seats_manifests(namespace=NAMESPACE, release=RELEASE)
    commands = commands_manifests(namespace=NAMESPACE, release=RELEASE)
    described = described_groups_manifests(namespace=NAMESPACE, release=RELEASE)
    schedulers = scheduler_manifests(exempt=exempt, version="VERSION")
    return {
        "charts/pyroclast/templates/policies.yaml": "\n".join(
            [NOTE, _switched("vap_enable", checks), _switched("map_enable", defaults), ""]
        ),
        "charts/pyroclast/templates/seats-policy.yaml": "\n".join(
            [NOTE, _if('include "pyroclast.placesBeforePods" .', seats), ""]
        ),
        "charts/pyroclast/templates/commands-policy.yaml": "\n".join([NOTE, _if(WITH_POLICIES, commands), ""]),
        "charts/pyroclast/templates/described-groups-policy.yaml": "\n".join([NOTE, _if(WITH_POLICIES, described), ""]),
        "charts/pyroclast/templates/namespace-scheduler-policy.yaml": "\n".join(
            [NOTE, _switched("namespace_scheduler_enable", schedulers), ""]
        ),
        "docs/reference/admission-policies.md": coverage_page(),
    }


def main() -> int:
    """Write the files below the current directory. Return the exit status."""
    for path, content in files().items():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    return 0


def _switched(value: str, objects: list[dict[str, Any]]) -> str:
    return _if(f".Values.custom.{value}", objects)


def _if(condition: str, objects: list[dict[str, Any]]) -> str:
    documents = "".join(f"---\n{_dumped(document)}" for document in objects)
    return f"{{{{- if {condition} }}}}\n{documents}{{{{- end }}}}"


def _dumped(document: dict[str, Any]) -> str:
    text = yaml.safe_dump(document, sort_keys=False, width=10_000, allow_unicode=True)
    version = text.replace("admissionregistration.k8s.io/VERSION", f"admissionregistration.k8s.io/{VERSION}")
    complete = version.replace('"JOB_PLUGINS"', JOB_PLUGINS)
    return complete.replace("metadata:\n", 'metadata:\n  labels: {{- include "pyroclast.labels" . | nindent 4 }}\n', 1)


if __name__ == "__main__":
    sys.exit(main())
