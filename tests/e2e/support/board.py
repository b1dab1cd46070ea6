"""The pages of the board, read as a browser would ask for them."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request

from tests.e2e.support.cluster import Cluster, wait_until


def url(cluster: Cluster) -> str:
    """Where the board of `cluster` answers."""
    return str(cluster.get("configmap", "pyroclast-board", "-n", "pyroclast-system")["data"]["url"])


def look(cluster: Cluster, path: str) -> tuple[int, str]:
    """The status and text of a page; the board may be just starting, which is status 0."""
    try:
        with urllib.request.urlopen(url(cluster) + path, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, http.client.HTTPException):
        return 0, ""


def shows(cluster: Cluster, path: str, *words: str, status: int = 200) -> str:
    """The page once it has all of these words."""
    found = ""

    def holds() -> bool:
        nonlocal found
        code, found = look(cluster, path)
        return code == status and all(word in found for word in words)

    wait_until(holds, f"{path} to show {words}")
    return found
