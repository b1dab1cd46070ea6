"""The alerts of the chart and the list in the documentation, made from the checks of health.

`python -m tests.unit.chart.health_alerts` writes both.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyroclast.views.health import CHECKS, Check

ALERTS = Path("charts/pyroclast/files/health-alerts.yaml")
PAGE = Path("docs/how-to/find-out-what-is-wrong.md")


def alert_rules(checks: Iterable[Check] = CHECKS) -> str:
    """Return the alert rules of the chart, by the metric of the board."""
    ours = '{{- $ours := printf "namespace=%q, service=~%q" .Release.Namespace (printf "%s-.*-service" .Release.Name) }}\n'
    rule = (
        '- alert: {alert}\n  expr: max(pyroclast_problem{{ {{{{- $ours -}}}} , check="{name}"}}) == 1\n'
        '  labels: {{severity: {severity}}}\n  annotations:\n    summary: "{meaning} vcctl doctor says which and since when"\n'
        "    runbook_url: {{{{ .Values.monitoring.runbooks }}}}#{anchor}\n"
    )
    fields = ({**_texts(check), "anchor": check.alert.lower()} for check in checks)
    return (
        "{{- /* made by `python -m tests.unit.chart.health_alerts`; do not edit */}}\n"
        + ours
        + "".join(rule.format(**each) for each in fields)
    )


def _texts(check: Check) -> dict[str, str]:
    return {name: getattr(check, name) for name in ("name", "alert", "severity", "meaning", "help")}


def checklist(checks: Iterable[Check] = CHECKS) -> str:
    """Return the table of the documentation."""
    rows = [
        f"| `{each.name}` | {each.meaning} | [{each.alert}](../reference/alerts.md#{each.alert.lower()}) | {each.help} |"
        for each in checks
    ]
    return "\n".join(["| Check | What is wrong | Alert | What helps |", "|---|---|---|---|", *rows]) + "\n"


def written(page: str) -> str:
    """The page of the documentation with the table in it."""
    head, _, rest = page.partition("| Check |")
    _, _, tail = rest.partition("\n\n")
    return f"{head}{checklist()}" + (f"\n{tail}" if tail else "")


if __name__ == "__main__":
    ALERTS.write_text(alert_rules())
    PAGE.write_text(written(PAGE.read_text()))
