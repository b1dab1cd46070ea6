"""Deletion of one object or of selected objects: preconditions, grace periods, finalizers and cascades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyroclast.rules.errors import FieldError, invalid, unsupported
from pyroclast_standalone import times
from pyroclast_standalone.apiserver.admission.chain import Review
from pyroclast_standalone.apiserver.documents.errors import DocumentError
from pyroclast_standalone.apiserver.requests import bodies, status
from pyroclast_standalone.apiserver.requests.context import Answer, Context
from pyroclast_standalone.apiserver.requests.present import json_answer, list_answer, object_answer, served
from pyroclast_standalone.apiserver.storage import objectmeta
from pyroclast_standalone.apiserver.storage.registry import Resource
from pyroclast_standalone.apiserver.storage.store import Collection, Store, Stored
from pyroclast_standalone.apiserver.verbs.listing import check_list_options, place_of, selection
from pyroclast_standalone.apiserver.verbs.write import Writer

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
CRD_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_KIND: Final = bodies.BodyKind("meta.k8s.io", "v1", "DeleteOptions")
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_TERMINATING: Final = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
_PROTECTED: Final = {"default", "kube-system", "kube-public"}
_DEFAULT_GRACE: Final = 30


@dataclass(slots=True)
class DeleteOptions:
    """The options of a deletion: `grace` in seconds, None for the kind's default, and `orphan`, the older field for policies."""

    grace: int | None = None
    policy: str = ""
    orphan: bool | None = None
    uid: str = ""
    revision: str = ""
    dry_run: bool = False
    wire: dict[str, Any] | None = None


def read_options(context: Context) -> DeleteOptions:
    """Return the options in the body, or in the query if there is no body."""
    if context.body:
        raw = _body_options(context)
    else:
        raw = {}
        query = context.query
        if (grace := query.number("gracePeriodSeconds")) is not None:
            raw["gracePeriodSeconds"] = grace
        if query.text("propagationPolicy"):
            raw["propagationPolicy"] = query.text("propagationPolicy")
        if "orphanDependents" in query:
            raw["orphanDependents"] = query.flag("orphanDependents")
        if query.text("dryRun"):
            raw["dryRun"] = [query.text("dryRun")]
    return options_of(raw)


def options_of(raw: dict[str, Any]) -> DeleteOptions:
    """Parse the options of a body."""
    preconditions = raw.get("preconditions") or {}
    options = DeleteOptions(
        raw.get("gracePeriodSeconds"),
        raw.get("propagationPolicy") or "",
        raw.get("orphanDependents"),
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        bool(raw.get("dryRun")),
        {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **raw},
    )
    faults: list[FieldError] = []
    if options.orphan is not None and options.policy:
        faults.append(invalid("propagationPolicy", options.policy, "orphanDependents and deletionPropagation cannot be both set"))
    if options.policy and options.policy not in _POLICIES:
        faults.append(unsupported("propagationPolicy", options.policy, (*_POLICIES, "nil")))
    if raw.get("dryRun") and raw["dryRun"] != ["All"]:
        faults.append(unsupported("dryRun", raw["dryRun"], ("All",)))
    if faults:
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", faults)
    return options


def _body_options(context: Context) -> dict[str, Any]:
    raw, _ = bodies.parse(context, _KIND.kind)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise bodies.not_an_object(context.body, _KIND.kind, raw)
    if (kind := raw.get("kind") or _KIND.kind) != _KIND.kind:
        version = raw.get("apiVersion") or _KIND.api_version
        raise status.bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"')
    try:
        _KIND.decode(raw)
    except DocumentError as error:
        raise status.bad_request(error.message) from None
    known = ("gracePeriodSeconds", "propagationPolicy", "orphanDependents", "preconditions", "dryRun")
    return {name: raw[name] for name in known if raw.get(name) is not None}


class Deleter:
    """Deletes objects of any kind."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._store = writer.store

    async def delete(self, context: Context, resource: Resource) -> Answer:
        """Handle the DELETE of one object."""
        options = read_options(context)
        key = resource.key(context.info.namespace, context.info.name)
        shown, is_gone = await self.delete_key(context, resource, key, options)
        code = 202 if not is_gone and options.orphan is False else 200
        if isinstance(shown, Stored) and is_gone and not resource.strategy.deletes_to_object:
            details = {"name": shown.name, "group": resource.group, "kind": resource.plural, "uid": shown.uid}
            return json_answer(status.success(details={name: value for name, value in details.items() if value}), code)
        return object_answer(context, resource, shown, code)

    async def delete_collection(self, context: Context, resource: Resource) -> Answer:
        """Handle the DELETE of the selected objects. The answer is the list of these objects."""
        options = read_options(context)
        check_list_options(context.query)
        _, after = place_of(context.query)
        chosen = selection(context.query, resource, context.info.namespace)
        items = [item for item in resource.collection.select(context.info.namespace) if item.key > after and chosen(item)]
        limit = context.query.number("limit") or 0
        if limit > 0:
            items = items[:limit]
        for item in items:
            try:
                await self.delete_key(context, resource, item.key, options, is_collection=True)
            except status.StatusError as error:
                if error.code != 404:
                    raise
        metadata = {"continue": ""} if resource.is_custom else {}
        return list_answer(context, resource, items, {**metadata, "resourceVersion": str(self._store.revision)})

    async def delete_key(
        self,
        context: Context,
        resource: Resource,
        key: str,
        options: DeleteOptions,
        *,
        is_collection: bool = False,
        is_admitted: bool = False,
    ) -> tuple[Stored | dict[str, Any], bool]:
        """Delete the object under `key`, or mark it as deleted. Return the object for the answer, and whether it was removed.

        With `is_admitted`, admission has already reviewed the operation of which the deletion is a part.
        """
        while True:
            current = resource.collection.items.get(key)
            if current is None:
                raise status.not_found(resource.group, resource.plural, key.rpartition("/")[2])
            old = served(resource, current)
            check_preconditions(resource, current, options)
            if resource.qualified == "namespaces" and current.name in _PROTECTED:
                raise status.forbidden("", "namespaces", current.name, "this namespace may not be deleted")
            name = "" if is_collection else current.name
            review = Review(
                "DELETE", resource, "", current.namespace, name, None, old, context, options.dry_run, options.wire or {}
            )
            if not is_admitted:
                await self._writer.admission.mutate(review)
                await self._writer.admission.validate(review)
            if resource.collection.items.get(key) is current:
                self._writer.admission.guard(review)
                return self._delete_now(resource, current, options)

    def _delete_now(self, resource: Resource, current: Stored, options: DeleteOptions) -> tuple[Stored | dict[str, Any], bool]:
        body = current.load()
        metadata = body["metadata"]
        now = self._writer.now()
        was = dict(metadata)
        if resource.qualified == "namespaces":
            return self._delete_later(resource, current, body, options)
        is_graceful, is_pending = _grace(resource, body, options, now)
        if is_pending:
            return current, False
        _choose_finalizers(resource, metadata, options)
        if resource.collection.name == _DEFINITIONS:
            return self._delete_later(resource, current, body, options)
        waits = bool(metadata.get("finalizers"))
        if waits:
            objectmeta.mark_deleting(metadata, now)
        goes_later = waits or (is_graceful and metadata.get("deletionGracePeriodSeconds", 0) > 0)
        shown: Stored | dict[str, Any] = current
        if metadata != was and not options.dry_run and (goes_later or is_graceful):
            shown = self._store.put(resource.collection, current.key, body)
        elif options.dry_run:
            shown = body if goes_later or resource.strategy.deletes_to_object else current
        if goes_later:
            return shown, False
        if not options.dry_run:
            gone = self._store.delete(resource.collection, current.key)
            return (shown if is_graceful else gone), True
        return shown, True

    def _delete_later(
        self, resource: Resource, current: Stored, body: dict[str, Any], options: DeleteOptions
    ) -> tuple[Stored | dict[str, Any], bool]:
        """Mark a namespace or a definition as deleted. The controller of the kind removes the object after its content."""
        metadata = body["metadata"]
        if "deletionTimestamp" in metadata:
            return current, False
        now = metadata["deletionTimestamp"] = times.rfc3339(self._writer.now())
        state = body.setdefault("status", {})
        if resource.collection.name == _DEFINITIONS:
            metadata["finalizers"] = [*(each for each in metadata.get("finalizers") or () if each != CRD_CLEANUP), CRD_CLEANUP]
            others = [each for each in state.get("conditions") or () if each["type"] != "Terminating"]
            ends = {"type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionPending"}
            state["conditions"] = [*others, {**ends, "message": _TERMINATING}]
        else:
            state["phase"] = "Terminating"
        if options.dry_run:
            return body, False
        return self._store.put(resource.collection, current.key, body), False


def release(store: Store, collection: Collection, key: str, body: dict[str, Any], finalizer: str) -> None:
    """Remove a finalizer of a deleted object. Without other finalizers, the object is removed."""
    before = body["metadata"].get("finalizers") or []
    kept = [each for each in before if each != finalizer]
    if not kept:
        store.delete(collection, key)
    elif kept != before:
        body["metadata"]["finalizers"] = kept
        store.put(collection, key, body)


def check_preconditions(resource: Resource, current: Stored, options: DeleteOptions) -> None:
    """Check the preconditions of a deletion."""
    if options.uid and options.uid != current.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({current.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict(resource.group, resource.kind, current.name, why)
    if options.revision and options.revision != str(current.revision):
        why = (
            f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in record "
            f"({current.revision}). The object might have been modified"
        )
        raise status.conflict(resource.group, resource.kind, current.name, why)


def _grace(resource: Resource, body: dict[str, Any], options: DeleteOptions, now: float) -> tuple[bool, bool]:
    """Set the times of a graceful deletion.

    Return whether it is graceful, and whether an earlier graceful deletion continues because this one cannot shorten it.
    """
    metadata = body["metadata"]
    if "deletionTimestamp" in metadata:
        before = metadata.get("deletionGracePeriodSeconds")
        if before is None or resource.qualified != "pods":
            return False, False
        if options.grace is None:
            return False, before > 0
        wanted = 1 if options.grace < 0 else options.grace
        if wanted >= before:
            return False, before > 0
        ends = times.seconds_of(metadata["deletionTimestamp"]) - before + wanted
        metadata["deletionTimestamp"] = times.rfc3339(ends)
        metadata["deletionGracePeriodSeconds"] = wanted
        return True, False
    if resource.qualified != "pods":
        return False, False
    spec = body.get("spec") or {}
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    if not spec.get("nodeName") or (body.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
        grace = 0
    grace = 1 if grace < 0 else grace
    metadata["deletionTimestamp"] = times.rfc3339(now + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation", 0) > 0:
        metadata["generation"] += 1
    return True, False


def _choose_finalizers(resource: Resource, metadata: dict[str, Any], options: DeleteOptions) -> None:
    """Set the finalizers by which the options orphan dependents or delete them first; without a policy they stay."""
    if resource.collection.name == "events":
        return
    finalizers: list[str] = metadata.get("finalizers") or []
    policy = options.policy or {True: "Orphan", False: "Background", None: ""}[options.orphan]
    wanted = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND], "Background": []}.get(policy)
    if wanted is None:
        return
    kept = [each for each in finalizers if each not in {ORPHAN, FOREGROUND}]
    objectmeta.keep_items(metadata, "finalizers", kept + wanted)
