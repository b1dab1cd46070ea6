"""The documentation page of the rules that the policies cover, and of those that they do not cover."""

from __future__ import annotations

from pyroclast.rules.policies.mutating import MUTATING
from pyroclast.rules.policies.uncovered import UNCOVERED
from pyroclast.rules.policies.validating import VALIDATING

_HEAD = """# Admission policies instead of webhooks

<!-- made by `python -m pyroclast_admission.policies`; do not edit -->

The API server can apply the rules of admission by itself, as admission policies, as far as CEL can express the rules. The chart
installs policies for checks with `custom.vap_enable`, and policies for defaults with `custom.map_enable`. Policies and webhooks
can run together; `custom.admission_enable: false` switches the webhooks off. The policies need Kubernetes 1.33, and use the
newest API version that the API server supports.

If a request breaks the rule of a check, the API server refuses the request with the message in the table. A default sets a
field that a new object does not have.
"""


def coverage_page() -> str:
    """Return the page about admission policies in Markdown."""
    lines = [_HEAD, "## Checks\n", "| Kind | Rule | When | Message |", "|---|---|---|---|"]
    for policy in VALIDATING:
        for validation in policy.validations:
            when = ", ".join(validation.operations or policy.operations)
            lines.append(f"| {policy.resource.kind} | {validation.rule} | {when} | {_code(validation.message)} |")
    lines += ["\n## Defaults on creation\n", "| Kind | Default |", "|---|---|"]
    lines += [f"| {policy.resource.kind} | {mutation.rule} |" for policy in MUTATING for mutation in policy.mutations]
    lines += ["\n## What only the webhooks check\n", "| Kind | Rule | Why |", "|---|---|---|"]
    lines += [f"| {kind} | {rule} | {why} |" for kind, rule, why in UNCOVERED]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
