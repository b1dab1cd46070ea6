"""Mends what the theme of the documentation site leaves out for readers of the screen and keyboards."""

from __future__ import annotations

import re

DIALOG = 'data-md-component="search" role="dialog"'
NESTED = re.compile(r'<nav class="md-nav" data-md-level="[1-9]" aria-labelledby="[^"]*" aria-expanded="[a-z]*">')


def on_post_page(output: str, **_: object) -> str:
    """Name the search dialog, and make one landmark of the nested lists of pages."""
    named = output.replace(DIALOG, f'{DIALOG} aria-label="Search"')
    return NESTED.sub('<nav class="md-nav" data-md-level="1" role="presentation">', named)
