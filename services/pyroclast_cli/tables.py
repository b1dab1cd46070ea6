"""Tables of text: left-aligned columns, padded with spaces."""

from __future__ import annotations

from collections.abc import Sequence


def padded(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return the rows with each column padded to its width. A longer value shifts the rest of its row. Trailing spaces remain."""
    return ["".join(value.ljust(width) for value, width in zip(row, widths, strict=True)) for row in rows]


def fitted(rows: Sequence[Sequence[str]], gap: int) -> list[str]:
    """Return the rows with each column as wide as its longest value plus `gap` spaces."""
    return padded(rows, [max(len(row[column]) for row in rows) + gap for column in range(len(rows[0]))])
