"""The write pipeline: create, update and patch, with the steps of kube-apiserver in the same order.

decode → system fields of the request → managedFields → mutating admission → preparation by the kind → validation → validating
admission → guards and commit. Nothing waits between the last read of the store and the commit. If admission had to wait, the
commit checks that the object is still the version that was read. If it is not, the change starts again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final

import orjson

from pyroclast.rules.errors import invalid
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.admission.chain import Admission, Review
from pyroclast_standalone.apiserver.documents import managed_fields
from pyroclast_standalone.apiserver.documents.structural import Verdict
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Context
from pyroclast_standalone.apiserver.requests.present import found, served
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Store, Stored
from pyroclast_standalone.apiserver.verbs import patching
from pyroclast_standalone.apiserver.verbs.listing import revision_of

Outcome = tuple[int, "Stored | dict[str, Any]"]
"""HTTP code, and the object for the answer: the stored object, or the unstored object of a dry run."""

Change = Callable[["dict[str, Any] | None"], "dict[str, Any]"]
"""Returns the requested object for the present one."""

_RETRIES: Final = 5  # of a change without precondition when other writes are earlier
_NAME_RETRIES: Final = 8


_SCALE: Final = ("autoscaling", "v1", "Scale")


class Writer:
    """Creates and changes objects of all kinds."""

    def __init__(self, store: Store, admission: Admission, *, now: Callable[[], float] = time.time) -> None:
        self.store = store
        self.admission = admission
        self.now = now
        self.finishers: dict[str, Callable[[dict[str, Any]], None]] = {}  # by collection: changes an object before its commit
        self._rng = random.Random()  # noqa: S311 - names, not secrets

    # --- create -------------------------------------------------------------------------------------------------

    async def create(self, context: Context, resource: Resource) -> Outcome:
        """Handle the POST to a collection."""
        context.check_options()
        document = bodies.decode(context, resource.strategy)
        return await self.create_document(context, resource, document, is_post=True)

    async def create_document(
        self, context: Context, resource: Resource, document: dict[str, Any], *, is_tracked: bool = False, is_post: bool = False
    ) -> Outcome:
        """Create `document`. `is_tracked` means that its managedFields are set. `is_post` means that the object must be new."""
        metadata = _metadata_of(document)
        if is_post and not resource.namespaced:
            metadata.pop("namespace", None)
        namespace = _namespace(context, resource, metadata)
        context.created_name = metadata.get("name") or ""
        if is_post:
            objectmeta.drop_foreign(metadata)
        now = self.now()
        dry_run = context.is_dry_run
        if not is_tracked:
            self.track(context, resource, document, None, now=now)
        name, options = metadata.get("name") or "", context.write_options("CreateOptions")
        review = Review("CREATE", resource, "", namespace, name, document, None, context, dry_run, options)
        await self.admission.mutate(review)
        document = _mutated(review)
        metadata = document["metadata"]
        version = str(metadata.get("resourceVersion") or "")
        objectmeta.complete(metadata, now)
        generated = not metadata.get("name") and metadata.get("generateName")
        for attempt in range(_NAME_RETRIES if generated else 1):
            if generated:
                metadata["name"] = objectmeta.generate_name(metadata["generateName"], self._rng)
            if attempt == 0:
                resource.strategy.prepare_create(document)
                _date_conditions(document)
                self._accept(context, resource, document, resource.strategy.validate(document))
                for text in resource.strategy.warnings(document):
                    context.warn(text)
                review.name = metadata["name"]
                await self.admission.validate(review)
            if is_post and not dry_run and version.isdigit() and int(version):
                raise status.unreasoned(500, "resourceVersion should not be set on objects to be created")
            key = resource.key(namespace, metadata["name"])
            if key not in resource.collection.items:
                break
        else:
            existing = resource.collection.items[key]
            raise self._exists(resource, existing, generated=bool(generated))
        self.admission.guard(review)
        if dry_run:
            shown = objectmeta.ordered(document, resource.kind, document["apiVersion"])
            shown["metadata"]["resourceVersion"] = version
            if not version:
                del shown["metadata"]["resourceVersion"]
            return 201, shown
        return 201, self._commit(resource, key, document)

    def _exists(self, resource: Resource, existing: Stored, *, generated: bool) -> status.StatusError:
        text = f'{resource.qualified} "{existing.name}" already exists'
        if existing.deleting:
            message = f"object is being deleted: {text}"
            return status.already_exists(resource.group, resource.plural, existing.name, message=message)
        if generated:
            text += ", the server was not able to generate a unique name for the object"
            error = status.already_exists(resource.group, resource.plural, existing.name, message=text)
            error.details = {**(error.details or {}), "retryAfterSeconds": 1}
            return error
        return status.already_exists(resource.group, resource.plural, existing.name)

    # --- update -------------------------------------------------------------------------------------------------

    async def update(self, context: Context, resource: Resource, subresource: str = "") -> Outcome:
        """Handle the PUT of an object or of its status."""
        context.check_options()
        document = bodies.decode(context, resource.strategy)
        metadata = _metadata_of(document)
        if not resource.namespaced:
            metadata.pop("namespace", None)
        namespace = _namespace(context, resource, metadata)
        _name_matches(context, metadata)
        key = resource.key(namespace, context.info.name)
        if key not in resource.collection.items and not subresource and resource.strategy.created_by_put:
            _revision(metadata)
            check_uid(context, resource, metadata, {"uid": ""})
            return await self.create_document(context, resource, document)
        has_version = bool(metadata.get("resourceVersion"))
        pristine = orjson.dumps(document)
        return await self.change(
            context,
            resource,
            key,
            lambda _: orjson.loads(pristine),
            subresource=subresource,
            retries=0 if has_version else _RETRIES,
            is_put=True,
        )

    async def patch(self, context: Context, resource: Resource, subresource: str = "") -> Outcome:
        """Handle the PATCH of an object or of its status. An apply patch may create the object."""
        patching.check_kind(context, resource)
        patching.check_options(context)
        key = resource.key(context.info.namespace, context.info.name)
        is_apply = context.content_type == patching.APPLY
        creates = is_apply and not subresource and key not in resource.collection.items
        if not creates:
            found(context, resource)
        change = patching.patcher(context, resource, times.rfc3339(self.now()), subresource)
        if creates:
            document = change(None)
            metadata = _metadata_of(document)
            _name_matches(context, metadata)
            if metadata.get("uid"):
                why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
                raise status.conflict(resource.group, resource.plural, context.info.name, why)
            _revision(metadata)
            return await self.create_document(context, resource, document, is_tracked=True)
        return await self.change(context, resource, key, change, subresource=subresource, retries=_RETRIES, is_tracked=is_apply)

    async def change(
        self,
        context: Context,
        resource: Resource,
        key: str,
        change: Change,
        *,
        subresource: str = "",
        retries: int = _RETRIES,
        is_tracked: bool = False,
        is_put: bool = False,
        show: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> Outcome:
        """Change the object under `key`. After a conflict with another write, the change is tried again up to `retries` times."""
        options, dry_run, kind = context.write_options("UpdateOptions"), context.is_dry_run, _SCALE if show else None
        for _ in range(retries + 1):
            current = resource.collection.items.get(key)
            if current is None:
                raise status.not_found(resource.group, resource.plural, context.info.name)
            old = served(resource, current)
            new = change(old)
            metadata = _metadata_of(new)
            version = self._check_identity(context, resource, metadata, old["metadata"], is_put=is_put)
            objectmeta.keep_system_fields(metadata, old["metadata"])
            if not is_tracked:
                self.track(context, resource, new, old, now=self.now(), subresource=subresource)
            place = current.namespace, current.name
            review = Review("UPDATE", resource, subresource, *place, new, old, context, dry_run, options, kind, show)
            await self.admission.mutate(review)
            new = _mutated(review)
            if version != old["metadata"]["resourceVersion"]:
                break
            new["metadata"]["resourceVersion"] = version
            resource.strategy.prepare_update(new, old, subresource=subresource)
            self._accept(context, resource, new, resource.strategy.validate_update(new, old, subresource=subresource))
            for text in resource.strategy.warnings(new, old):
                context.warn(text)
            await self.admission.validate(review)
            if resource.collection.items.get(key) is current:
                self.admission.guard(review)
                return 200, self._replace(resource, current, new, old, dry_run=dry_run)
        raise _modified(resource, key)

    def _check_identity(
        self, context: Context, resource: Resource, metadata: dict[str, Any], old: dict[str, Any], *, is_put: bool
    ) -> str:
        """Check that the request is for the present object. Return the resourceVersion that it requires."""
        if is_put:
            check_uid(context, resource, metadata, old)
        else:
            check_place(context, resource, metadata)
        version = metadata.get("resourceVersion") if _revision(metadata) else ""
        if not version and resource.strategy.needs_version:
            fault = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status.invalid(resource.group, resource.plural, context.info.name, [fault])
        metadata["resourceVersion"] = version or old["resourceVersion"]
        return str(metadata["resourceVersion"])

    def _replace(
        self, resource: Resource, current: Stored, new: dict[str, Any], old: dict[str, Any], *, dry_run: bool
    ) -> Stored | dict[str, Any]:
        """Commit `new` if it differs from `old`. A deleted object without remaining finalizers is removed."""
        if dry_run:
            return objectmeta.ordered(new, resource.kind, new["apiVersion"])
        new["metadata"].pop("selfLink", None)
        if objectmeta.is_same(new, old):
            return current
        if _goes_now(new, old):
            self.store.delete(resource.collection, current.key)
            return new
        return self._commit(resource, current.key, new)

    # --- shared -------------------------------------------------------------------------------------------------

    def _commit(self, resource: Resource, key: str, document: dict[str, Any]) -> Stored:
        document["metadata"].pop("selfLink", None)
        finish = self.finishers.get(resource.collection.name)
        if finish is not None:
            finish(document)
        if resource.to_stored is not None:
            document = resource.to_stored(document)
            return self.store.put(resource.collection, key, document)
        return self.store.put(resource.collection, key, objectmeta.ordered(document, resource.kind, document["apiVersion"]))

    def track(
        self,
        context: Context,
        resource: Resource,
        new: dict[str, Any],
        old: dict[str, Any] | None,
        *,
        now: float,
        subresource: str = "",
    ) -> None:
        """Set the managedFields of `new` for this request."""
        managed_fields.track_update(
            new,
            old,
            resource.strategy.schema,
            manager=context.field_manager,
            api_version=resource.api_version,
            now=times.rfc3339(now),
            subresource=subresource,
        )

    def _accept(self, context: Context, resource: Resource, document: dict[str, Any], verdict: Verdict) -> None:
        for text in verdict.warnings:
            context.warn(text)
        if verdict.errors:
            name = document["metadata"].get("name") or ""
            raise status.invalid(resource.collection_group, resource.kind, name, verdict.errors)


def _metadata_of(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        metadata = document["metadata"] = {}
    return metadata


def _namespace(context: Context, resource: Resource, metadata: dict[str, Any]) -> str:
    """Return the namespace of the object, after checking that it equals that of the path."""
    wanted = context.info.namespace if resource.namespaced else ""
    given = metadata.get("namespace") or ""
    if resource.namespaced:
        if given and wanted and given != wanted:
            raise status.bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = wanted
    elif not given:
        metadata.pop("namespace", None)
    return wanted


def check_place(context: Context, resource: Resource, metadata: dict[str, Any]) -> None:
    """Check that the object's name and namespace equal those of the path."""
    _namespace(context, resource, metadata)
    _name_matches(context, metadata)


def _name_matches(context: Context, metadata: dict[str, Any]) -> None:
    name = metadata.get("name") or ""
    if name != context.info.name:
        if not name:
            why = f"the name of the object ({context.info.name} based on URL) was undeterminable: name must be provided"
            raise status.bad_request(why)
        raise status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({context.info.name})")


def _mutated(review: Review) -> dict[str, Any]:
    """Return the object after mutating admission, which kept it normalised."""
    if review.body is None:
        raise TypeError("admission took the object away")
    return review.body


def _date_conditions(document: dict[str, Any]) -> None:
    """Set the transition times of conditions that a kind sets in new objects."""
    status_of = document.get("status")
    for condition in (status_of.get("conditions") or ()) if isinstance(status_of, dict) else ():
        if condition.get("lastTransitionTime", "") is None:
            condition["lastTransitionTime"] = document["metadata"]["creationTimestamp"]


def _revision(metadata: dict[str, Any]) -> int:
    """Return the resourceVersion of a write, 0 for any."""
    try:
        return revision_of(str(metadata.get("resourceVersion") or ""))
    except ValueError as error:
        raise status.unreasoned(500, str(error)[str(error).index("strconv") :]) from None


def _modified(resource: Resource, key: str) -> status.StatusError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return status.conflict(resource.group, resource.plural, key.rpartition("/")[2], why)


def check_uid(context: Context, resource: Resource, metadata: dict[str, Any], old: dict[str, Any]) -> None:
    """Check that a write is for the object that has the name now."""
    wanted, info = metadata.get("uid"), context.info
    if wanted and wanted != old["uid"]:
        place = f"/registry/{resource.plural}/{info.namespace + '/' if info.namespace else ''}{info.name}"
        why = f"{status.no_such_uid(place, wanted, old['uid'])}"
        raise status.conflict(resource.group, resource.plural, info.name, why)


def _goes_now(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Return whether this update removed the last finalizer of a deleted object."""
    if new["metadata"].get("finalizers") or old["metadata"].get("deletionGracePeriodSeconds") != 0:
        return False
    return new["kind"] != "Namespace" or not new.get("spec", {}).get("finalizers")
