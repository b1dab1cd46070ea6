"""HTTP extenders: questions of the deciding thread to a service of somebody else, bounded in time and size."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException
from typing import Final

__all__ = ["LARGEST_ANSWER", "HttpExtender"]

LARGEST_ANSWER: Final = 10 * 2**20  # bytes, as Volcano reads at the most


class HttpExtender:
    """The port that the plugin extender asks. Only http and https; redirects are followed as usual."""

    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:
        """The body of the answer.

        Raises:
            OSError: no answer within `timeout` seconds, one of another status than 200, or one that is too large.
        """
        if not url.startswith(("http://", "https://")):
            raise OSError(f"{url}: an address that begins with http:// or https:// is wanted")
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - checked
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310 - checked above
                if answer.status != 200:
                    raise OSError(f"status {answer.status}")
                text: bytes = answer.read(LARGEST_ANSWER + 1)
        except HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if len(text) > LARGEST_ANSWER:
            raise OSError(f"the answer is larger than {LARGEST_ANSWER} bytes")
        return text
