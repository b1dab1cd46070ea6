"""What changed on a page since somebody saw it. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import orjson

from pyroclast_board.pages.base import Page

__all__ = ["MOST_BYTES", "Live", "version_of"]

MOST_BYTES: Final = 16 * 1024
"""Of HTML in one message. A single part that is larger goes alone."""


def version_of(page: Page) -> str:
    """A name of what a page shows: the same on all replicas."""
    digest = hashlib.sha256(page.title.encode())
    for section in page.sections:
        parts = (section.id, section.html, section.head, *(text for row in section.rows or () for text in row))
        for part in parts:
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Part:
    """A section, a head or a row as it is now, or the order of the rows of a section; `number` grows with each change."""

    number: int
    kind: str
    section: str
    id: str
    content: Any


class Live:
    """A page that somebody follows. Viewers who saw number n get all parts that changed later, however much later they ask.

    Nothing waits in a line: who is slow gets the newest state of each part, once.
    """

    def __init__(self, page: Page) -> None:
        self._numbers = count(1)
        self._parts: dict[tuple[str, str, str], _Part] = {}
        self._messages: dict[int, tuple[bytes, int]] = {}
        self.number = 0
        self.version = ""
        self._sections: list[str] = []
        self.take(page)

    def has_form_of(self, page: Page) -> bool:
        """Whether a page has the same sections, so that the parts that changed are all there is to tell."""
        return [section.id for section in page.sections] == self._sections

    def take(self, page: Page) -> bool:
        """The page is like this now; whether that is news."""
        version = version_of(page)
        if version == self.version:
            return False
        self.version = version
        self._sections = [section.id for section in page.sections]
        fresh: dict[tuple[str, str, str], Any] = {}
        for section in page.sections:
            if section.rows is None:
                fresh["section", section.id, section.id] = section.html
                continue
            fresh["head", section.id, section.id] = section.head
            for id_, html in section.rows:
                fresh["row", section.id, id_] = html
            fresh["order", section.id, section.id] = [id_ for id_, _ in section.rows]  # behind its rows
        parts = {}
        for key, content in fresh.items():
            known = self._parts.get(key)
            parts[key] = known if known is not None and known.content == content else _Part(next(self._numbers), *key, content)
        self._parts = parts
        self.number = max((part.number for part in parts.values()), default=self.number)
        self._messages.clear()
        return True

    def since(self, number: int) -> tuple[bytes, int]:
        """The next message for who has seen `number`, and what that viewer has seen then. All who saw the same share it."""
        if number not in self._messages:
            self._messages[number] = self._message(number)
        return self._messages[number]

    def _message(self, number: int) -> tuple[bytes, int]:
        changed = sorted((part for part in self._parts.values() if part.number > number), key=lambda part: part.number)
        chosen: list[_Part] = []
        size = 0
        for part in changed:
            size += len(part.content) if part.kind != "order" else 40 * len(part.content)
            if chosen and size > MOST_BYTES:
                break
            chosen.append(part)
        reached = chosen[-1].number if len(chosen) < len(changed) else self.number
        return orjson.dumps([[part.kind, part.section, part.id, part.content] for part in chosen], default=str), reached
