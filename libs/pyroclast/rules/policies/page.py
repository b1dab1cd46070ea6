"""The documentation page of the rules that the policies cover, and of those that they do not cover."""

from __future__ import annotations

from typing import Final

from pyroclast.rules.lookups import MOST_PODS
from pyroclast.rules.policies.manifests import MUTATING, VALIDATING

_NO_QUEUES: Final = "a policy cannot read the queues"
UNCOVERED: Final[tuple[tuple[str, str, str], ...]] = (
    ("Job", "the queue exists, is open and has no child queues", _NO_QUEUES),
    ("Job", "the master task of the plugin mpi exists", "CEL cannot parse the arguments of the plugin"),
    ("Job", "`dependsOn` has no cycle of three or more tasks", "CEL has no recursion"),
    (
        "Job",
        "all other fields of the pod template (names, ports, volumes, probes, resources …)",
        "the API server checks these fields when pods are created",
    ),
    ("Job", "an update without a field that admission added keeps this field", "only a webhook adds the field again"),
    ("Job", "warnings, and all faults in one answer with a cause for each field", "a policy returns neither"),
    (
        "CronJob",
        "numbers of the schedule are in their range; the time zone exists",
        "CEL has no parser for schedules and no time zone database",
    ),
    ("PodGroup", "the queue exists and is open", _NO_QUEUES),
    ("PodGroup", "an update without a queue keeps the queue of the namespace", "only a webhook adds the field again"),
    ("Queue", "parent queues exist, are not nested too deep, and have no Jobs", _NO_QUEUES),
    ("Queue", "the annotation has valid limits of each person", "CEL cannot parse JSON"),
    ("Queue", "the annotation has a valid budget", "CEL cannot parse JSON, and has no time zone database"),
    ("Queue", "the resources of a queue fit the resources of its parent, siblings and children", _NO_QUEUES),
    ("Queue", "the path in `volcano.sh/hierarchy` is not the path of a parent of another queue", _NO_QUEUES),
    ("Queue", "a queue with child queues or with allocated pods is not deleted", _NO_QUEUES),
    (
        "Pod",
        "pods get the settings of the resource groups in the admission configuration",
        "a policy cannot read the configuration",
    ),
    ("HyperNode", "regular expressions are valid", "CEL fails on an invalid expression instead of reporting it"),
    (
        "JobFlow",
        "`dependsOn` has no cycle of three or more entries; control statements and names of loops are valid",
        "CEL has no recursion",
    ),
    (
        "JobFlow",
        "started entries are not changed, and running flows are not deleted",
        "the rule needs the user of the request and the status of the flow",
    ),
    *(
        (kind, "all rules for the spec of a Job", "the policies check the Jobs when they are created")
        for kind in ("CronJob", "HyperJob")
    ),
    ("Job", "the quotas of the namespace allow its PriorityClass", "a policy cannot read the quotas"),
    ("JobTemplate", "all rules for the spec of a Job", "admission applies these rules when the Job is created"),
)
"""The kind, the rule, and why no policy covers it."""


_HEAD = """# Admission policies instead of webhooks

<!-- made by `python -m pyroclast_admission.policies`; do not edit -->

The API server can apply the rules of admission by itself, as admission policies, as far as CEL can express the rules. The chart
installs policies for checks with `custom.vap_enable`, and policies for defaults with `custom.map_enable`. Policies and webhooks
can run together; `custom.admission_enable: false` switches the webhooks off. The policies need Kubernetes 1.33, and use the
newest API version that the API server supports.

The controllers execute only Commands with the mark of an authorization. Without webhooks, `custom.map_enable` writes this mark.
A policy of its own, which `custom.account_policies_enable` installs, checks that the user of a Command may update its target.

If a request breaks the rule of a check, the API server refuses the request with the message in the table. A default sets a
field that a new object does not have.
"""


def coverage_page() -> str:
    """Return the page about admission policies in Markdown."""
    lines = [_HEAD, "## Checks\n", "| Kind | Rule | When | Message |", "|---|---|---|---|"]
    for policy in VALIDATING:
        for validation in policy.validations:
            when = ", ".join(validation.operations or policy.operations)
            message = _code(validation.message.replace("MAX_PODS", str(MOST_PODS)))
            lines.append(f"| {policy.resource.kind} | {validation.rule} | {when} | {message} |")
    lines += ["\n## Defaults on creation\n", "| Kind | Default |", "|---|---|"]
    lines += [f"| {policy.resource.kind} | {mutation.rule} |" for policy in MUTATING for mutation in policy.mutations]
    lines += ["\n## What only the webhooks check\n", "| Kind | Rule | Why |", "|---|---|---|"]
    lines += [f"| {kind} | {rule} | {why} |" for kind, rule, why in UNCOVERED]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
