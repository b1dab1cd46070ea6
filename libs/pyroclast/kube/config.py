"""Where the API server is and how to speak to it: kubeconfig files and the in-cluster service account."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClusterConfig", "ConfigError", "load_config"]


class ConfigError(Exception):
    """A kubeconfig that cannot be used; the text is one line that names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """One cluster and one identity. `server` is its URL without a trailing slash."""

    server: str


def load_config(kubeconfig: str = "", *, master: str = "") -> ClusterConfig:
    """The configuration of a kubeconfig file, or of the service account of this pod when both arguments are empty.

    Raises:
        ConfigError: nothing usable there.
    """
    raise NotImplementedError
