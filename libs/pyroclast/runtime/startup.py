"""`python -m pyroclast.runtime.startup URL SECONDS`: waits until the program in the same container is ready.

The chart's startup probe. It waits inside the container because kubelet records a Warning for each probe that fails, and a
program that still loads its modules cannot answer yet. Kubelet leaves `$(NAME)` in the command of a probe as it is, so the
environment variable is put in here.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
import sys
import time
from urllib.parse import urlsplit

_POLL_SECONDS = 0.2
_ANSWER_SECONDS = 5.0


def wait(url: str, seconds: float) -> bool:
    """Ask `url` until it answers with status 200, for `seconds` at most. Return whether the program answers at all.

    A program that answers but is not ready has started: the liveness and readiness probes then judge it.
    """
    end = time.monotonic() + seconds
    while (status := _status(url)) != http.HTTPStatus.OK and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    return status > 0


def _status(url: str) -> int:
    """Return the status of the answer; 0 without an answer. Asks no proxy and verifies no certificate, as kubelet does."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_ANSWER_SECONDS)
    if parts.scheme == "https":
        unverified = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection(parts.netloc, timeout=_ANSWER_SECONDS, context=unverified)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def main() -> int:
    """Wait. The exit status is 0 when the program has started."""
    if len(sys.argv) != 3:
        sys.stderr.write(f"usage: {sys.argv[0]} URL SECONDS\n")
        return 2
    seconds = sys.argv[2]
    url = re.sub(r"\$\((\w+)\)", lambda name: os.environ.get(name[1], name[0]), sys.argv[1])
    if wait(url, float(seconds)):
        return 0
    sys.stdout.write(f"the program does not answer at {url} after {seconds} s\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
