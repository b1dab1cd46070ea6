"""HTTP extenders: requests from the thread of a session to an external service, limited in time and size."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException
from typing import Final

LARGEST_ANSWER: Final = 10 * 2**20  # bytes, the limit of Volcano


class HttpExtender:
    """The port that the plugin extender uses. Only http and https are allowed, and redirects are followed."""

    def post(self, url: str, body: bytes, *, timeout: float) -> bytes:
        """Send a request and return the body of the response.

        Raises:
            OSError: there was no response within `timeout` seconds, its status was not 200, or it was too large.
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
