"""Where the Jobs of a HyperJob can be made: the seam at which other clusters than this one would come in."""

from __future__ import annotations

from typing import Protocol

from pyroclast.api.records import HyperJob
from pyroclast.api.types import Key
from pyroclast.kube.http.client import Client
from pyroclast.lifecycle.hyperjobs import Problem, is_allowed
from pyroclast_job_controller.shared import Shared

__all__ = ["Domain", "Domains", "NamespaceDomains"]


class Domain(Protocol):
    """A place for Jobs: the API server that has it, and the namespace there."""

    @property
    def client(self) -> Client:
        """The way to its API server."""
        ...

    @property
    def namespace(self) -> str:
        """Where its Jobs are."""
        ...


class Domains(Protocol):
    """What names in `clusterNames` mean."""

    def find(self, hyper_job: HyperJob, name: str) -> Domain | Problem:
        """The domain of that name, or why `hyper_job` cannot use it."""
        ...


class _Namespace:
    """A namespace of this cluster."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace


class NamespaceDomains:
    """The namespaces of this cluster, of which each says in an annotation from where it takes Jobs."""

    def __init__(self, shared: Shared) -> None:
        self._client = shared.client
        self.namespaces = shared.caches.namespaces
        shared.caches.watch(self.namespaces)

    def find(self, hyper_job: HyperJob, name: str) -> Domain | Problem:
        """The namespace of that name, if it takes Jobs of `hyper_job`."""
        own = hyper_job.metadata.namespace
        namespace = self.namespaces.get(Key("", name))
        if name == own:
            return _Namespace(self._client, own)
        if namespace is None:
            text = f"{name} is no namespace of this cluster; other clusters cannot be used yet, so give namespaces"
            return Problem("ClusterNotSupported", text)
        if not is_allowed(hyper_job, namespace):
            annotation = f"training.volcano.sh/hyperjobs-from: {own}"
            return Problem(
                "NamespaceNotAllowed", f"namespace {name} takes no HyperJobs from {own}; annotate it with {annotation}"
            )
        if namespace.metadata.is_terminating:
            return Problem("NamespaceTerminating", f"namespace {name} is being deleted")
        return _Namespace(self._client, name)
