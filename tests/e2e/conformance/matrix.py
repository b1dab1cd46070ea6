"""Which statement of what must be right has which case."""

from __future__ import annotations

from tests.e2e.conformance.cases import load_cases, load_statements


def uncovered() -> list[str]:
    """Statements without a case."""
    covered = {name for case in (*load_cases(), *load_cases(aged=True)) for name in case.covers}
    return [name for name in load_statements() if name not in covered]


def unknown() -> list[str]:
    """What cases claim to cover and no statement says."""
    statements = load_statements()
    return sorted({name for case in (*load_cases(), *load_cases(aged=True)) for name in case.covers if name not in statements})


def written() -> str:
    """The matrix as a Markdown table."""
    by_statement: dict[str, list[str]] = {name: [] for name in load_statements()}
    for case in (*load_cases(), *load_cases(aged=True)):
        for name in case.covers:
            by_statement.setdefault(name, []).append(case.id)
    rows = [f"| {name} | {text} | {'; '.join(by_statement[name]) or '**none**'} |" for name, text in load_statements().items()]
    return "\n".join(["| Statement | What must be right | Cases |", "|---|---|---|", *rows])
