"""Matches stored objects with the selectors of a list or watch, without decoding the objects where possible."""

from __future__ import annotations

from collections.abc import Callable

from pyroclast_standalone.apiserver.documents import selectors
from pyroclast_standalone.apiserver.documents.errors import DocumentError
from pyroclast_standalone.apiserver.requests.routes import Query
from pyroclast_standalone.apiserver.requests.status import of_document
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Stored


class Selection:
    """The `labelSelector` and `fieldSelector` of a request. A call returns whether an object matches."""

    __slots__ = ("_fields", "_from_stored", "_labels", "_namespace", "_terms", "name")

    def __init__(
        self, labels: selectors.LabelSelector, fields: selectors.FieldSelector, resource: Resource, namespace: str
    ) -> None:
        self._labels = labels
        self._fields = fields
        self._namespace = namespace + "/" if namespace else ""
        self._from_stored = resource.from_stored
        self._terms = () if resource.from_stored and fields.terms else tuple(fields.terms)
        self.name = fields.exact("metadata.name") or ""

    @property
    def is_selective(self) -> bool:
        """Whether the request has selectors."""
        return bool(self._labels) or bool(self._fields)

    def __call__(self, stored: Stored) -> bool:
        """Return whether `stored` is in the namespace and matches both selectors."""
        if self._namespace and not stored.key.startswith(self._namespace):
            return False
        if self._labels and not self._labels.matches(stored.labels):
            return False
        if self._from_stored is not None:
            return not self._fields or self._fields.selects(self._from_stored(stored.load()))
        for field, wanted, equal in self._terms:
            if field == "metadata.name":
                value = stored.name
            elif field == "metadata.namespace":
                value = stored.namespace
            else:
                value = stored.fields.get(field, "")
            if (value == wanted) is not equal:
                return False
        return True

    def filter(self) -> Callable[[Stored], bool] | None:
        """Return the function that tests whether an object is selected, None when all objects are selected."""
        return self if self.is_selective or self._namespace else None


def selection(query: Query, resource: Resource, namespace: str, name: str = "") -> Selection:
    """Parse the selectors of a request. The path of the request may have a `name` too.

    Raises:
        StatusError: 400, a selector is invalid.
    """
    try:
        labels = selectors.parse_label_selector(query.text("labelSelector"))
        terms = query.text("fieldSelector")
        fields = selectors.parse_field_selector(terms, resource.strategy.fields, namespaced=resource.namespaced)
        if name and fields.exact("metadata.name") is None:
            terms = f"{terms},metadata.name={name}" if terms else f"metadata.name={name}"
            fields = selectors.parse_field_selector(terms, resource.strategy.fields, namespaced=resource.namespaced)
    except DocumentError as error:
        raise of_document(error) from None
    return Selection(labels, fields, resource, namespace)
