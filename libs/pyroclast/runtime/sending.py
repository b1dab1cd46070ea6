"""Sends a message to people by mail, webhook or chat. The URL of a target has secrets, so no URL is ever logged or returned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

INSTALL: Final = "messages need the package apprise: install the extra `notify`"
MOST_SECONDS: Final = 30.0
LONGEST_TITLE: Final = 200
LONGEST_BODY: Final = 8_000
_LOCAL: Final = ("dbus", "exec", "file", "gnome", "glib", "kde", "macosx", "qt", "syslog", "windows")
"""Kinds of targets that would act on the machine of the sender."""

_WEBHOOKS: Final = ("json:", "jsons:", "form:", "forms:", "xml:", "xmls:")


class NotSent(Exception):
    """A message did not reach its target. The text names no URL."""


def read_targets(text: str) -> list[str]:
    """Return the URLs in a file with one URL in a line; lines that begin with `#` are comments."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def service_of(urls: Sequence[str]) -> Any:  # noqa: ANN401 - an object of a package without types that is loaded late
    """Return the sender for URLs. Raises NotSent: the package is missing, or a URL names no kind of target that is known."""
    try:
        apprise = import_module("apprise")
    except ImportError as error:
        raise NotSent(INSTALL) from error
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    sender = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Pyroclast", app_desc="Pyroclast", secure_logging=True))
    for number, url in enumerate(urls, 1):
        kind = url.partition(":")[0].lower()
        if kind in _LOCAL or not sender.add(url):
            raise NotSent(f"target {number} is no URL of mail, a webhook or a chat that is known: it begins with {kind[:16]}:")
    if not urls:
        raise NotSent("there is no target")
    return sender


async def send(urls: Iterable[str], title: str, body: str, *, key: str = "") -> None:
    """Send a message to all URLs. Raises NotSent: one of them did not take it.

    `key`: the same for each attempt. Webhooks get it in the header Idempotency-Key, so that they can drop a repeated message.
    """
    if key:
        header = f"+Idempotency-Key={key}"
        urls = [f"{url}{'&' if '?' in url else '?'}{header}" if url.startswith(_WEBHOOKS) else url for url in urls]

    def notify() -> bool:  # in a thread: the package loads all its kinds of targets, and waits for answers
        return bool(service_of(list(urls)).notify(body=body[:LONGEST_BODY], title=title[:LONGEST_TITLE], body_format="text"))

    try:
        async with asyncio.timeout(MOST_SECONDS):
            is_sent = await asyncio.to_thread(notify)
    except TimeoutError:
        raise NotSent(f"the target did not take the message within {MOST_SECONDS:g} s") from None
    if not is_sent:
        raise NotSent("the target did not take the message")
