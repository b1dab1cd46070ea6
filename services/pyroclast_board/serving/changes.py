"""Computes the changes of a page since a viewer's last message. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import orjson

from pyroclast_board.pages.base import Page

MOST_BYTES: Final = 16 * 1024
"""Most bytes of HTML in one message. A single larger part is sent in a message of its own."""


def version_of(page: Page) -> str:
    """Return an identifier of the content of a page, which is equal on all replicas."""
    digest = hashlib.sha256(page.title.encode())
    for section in page.sections:
        parts = (section.id, section.html, section.head, *(text for row in section.rows or () for text in row))
        for part in parts:
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Part:
    """The present content of a section, a header or a row, or the order of a section's rows.

    `number` increases with each change.
    """

    number: int
    kind: str
    section: str
    id: str
    content: Any


class Live:
    """A followed page. A viewer who saw number n receives all sections that changed after n.

    No messages are queued: a slow viewer receives only the newest state of each part, once.
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
        """Return whether a page has the same sections, so that only changed sections need to be sent."""
        return [section.id for section in page.sections] == self._sections

    def take(self, page: Page) -> bool:
        """Set the present content of the page. Return whether the content has changed."""
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
            fresh["order", section.id, section.id] = [id_ for id_, _ in section.rows]  # after the rows themselves
        parts = {}
        for key, content in fresh.items():
            known = self._parts.get(key)
            parts[key] = known if known is not None and known.content == content else _Part(next(self._numbers), *key, content)
        self._parts = parts
        self.number = max((part.number for part in parts.values()), default=self.number)
        self._messages.clear()
        return True

    def since(self, number: int) -> tuple[bytes, int]:
        """Return the next message for a viewer who saw `number`, and the number after that message.

        All viewers with the same number share the message.
        """
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
