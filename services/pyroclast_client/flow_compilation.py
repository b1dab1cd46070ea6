"""Compiles a flow written in Python to a JobFlow, its JobTemplates, and the Secret with its code."""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any, Final, Generic, ParamSpec, TypeVar

from pyroclast.api.types import JOB_FLOWS, JOB_TEMPLATES, SECRETS
from pyroclast.rules import jobflows
from pyroclast_client.checking import checked_spec
from pyroclast_client.compilation import (
    Surroundings,
    job_spec,
    modules_of,
    pod_template,
    requirements_of,
    with_patch,
)
from pyroclast_client.documents import PAYLOAD, RETURNS, STORE, SUBMISSION, Document, secret_name
from pyroclast_client.entries import Entry, Gathered, choice_manifest, entry_manifest, reference
from pyroclast_client.errors import Cause, FlowError, Rejected, Usage
from pyroclast_client.flow_values import Node, building
from pyroclast_client.options import A_DAY, TaskOptions, function_name
from pyroclast_client.payload import KEY_BYTES, FlowPart, Payload, packed, secret_data, shared_modules

P = ParamSpec("P")
R = TypeVar("R")

SUFFIX: Final = 5
LONGEST_NAME: Final = 30


class FlowDefinition(Generic[P, R]):
    """A function that builds a flow from calls of tasks, with the store for values and whether finished Jobs are kept."""

    def __init__(self, function: Callable[P, R], *, store: str | None, keep: bool) -> None:
        self.function = function
        self.store = store
        self.keep = keep

    @property
    def name(self) -> str:
        """The name of the flow as a Kubernetes object name."""
        return re.sub(r"[^a-z0-9]+", "-", function_name(self.function).lower()).strip("-")[:LONGEST_NAME].strip("-") or "flow"


@dataclass(frozen=True, slots=True)
class CompiledFlow:
    """The objects of a flow. `names` maps names in the flow function to names of entries."""

    flow: Document
    templates: tuple[Document, ...]
    secret: Document = field(repr=False)
    names: Mapping[str, str]


@dataclass(frozen=True)
class FlowCall(Generic[R]):
    """A call of a flow that has not run yet. `client.submit` creates a JobFlow for it."""

    definition: FlowDefinition[..., R]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def compiled(self, surroundings: Surroundings, *, salt: str = "") -> CompiledFlow:
        """Return the objects of the flow. The same call returns the same objects, unless the salt differs."""
        gathered = Gathered()
        with building(gathered):
            returned = self.definition.function(*self.arguments, **self.keywords)
        return _Compiler(self.definition, gathered, surroundings, salt).compiled(returned)


class _Compiler:
    """Makes the objects of a flow from its entries."""

    def __init__(self, definition: FlowDefinition[..., Any], gathered: Gathered, surroundings: Surroundings, salt: str) -> None:
        entries, self._choices = gathered.entries, gathered.choices
        if not entries:
            raise FlowError(f"{_where(definition)}: the flow calls no task; call functions with @pc.task in it")
        self._definition, self._entries, self._surroundings = definition, entries, surroundings
        self._store = definition.store or surroundings.store
        self._modules: dict[object, str] = {}
        self._shared: dict[str, bytes] = {}
        handed = [node.name for entry in entries.values() for node in entry.needs]
        if handed and not self._store:
            text = f"{_where(definition)}: the value of {handed[0]} is handed to another task, which needs a store"
            raise Usage(f"{text}; give `@pc.flow(store='file:///shared/folder')`, or only order tasks by `after`")
        drafts = {name: self._payload(entry, "") for name, entry in entries.items()}
        same = {name: name for name in (*entries, *self._choices)}
        content = "".join(f"{name} {drafts[name].submission};{entry_manifest(entry, same)}" for name, entry in entries.items())
        content += "".join(str(choice_manifest(choice, same)) for choice in self._choices.values())
        self._submission = sha256(f"{salt} {definition.name} {surroundings} {content}".encode()).hexdigest()[:16]
        suffix = self._submission[:SUFFIX]
        self._name = f"{definition.name}-{suffix}"
        self._names = {name: f"{name}-{suffix}" for name in same}
        self._payloads = {name: self._payload(entry, self._submission) for name, entry in entries.items()}

    def compiled(self, returned: object) -> CompiledFlow:
        """Return all objects after the rules accepted them."""
        if returned is not None and not isinstance(returned, Node):
            kind = type(returned).__name__
            raise FlowError(f"{_where(self._definition)}: a flow returns a node, or nothing, not {kind}; return what a task gave")
        marks = {SUBMISSION: self._submission, PAYLOAD: secret_name(self._name)}
        if self._store:
            marks[STORE] = self._store
        if isinstance(returned, Node):
            marks[RETURNS] = returned.name if returned.rounds is None else f"{returned.name}*{returned.rounds}"
        spec: Document = {"flows": [entry_manifest(entry, self._names) for entry in self._entries.values()]}
        spec["flows"] += [choice_manifest(choice, self._names) for choice in self._choices.values()]
        spec["jobRetainPolicy"] = "retain" if self._definition.keep else "delete"
        made = self._object(JOB_FLOWS.api_version, JOB_FLOWS.kind, self._name, marks, spec=spec)
        templates = tuple(self._template(name, entry) for name, entry in self._entries.items())
        verdict = jobflows.validate_create(made)
        if not verdict.allowed:
            causes = [Cause(error.path, error.body) for error in verdict.causes]
            raise Rejected(f"flow {self._name} breaks rules: {verdict.sentence}. Correct that and run it again", causes)
        parts = {f"payload-{name}": payload.data for name, payload in self._payloads.items()} | self._shared
        data = secret_data(parts, self._store, _key(self._submission))
        secret = self._object(
            SECRETS.api_version, SECRETS.kind, secret_name(self._name), {SUBMISSION: self._submission}, data=data
        )
        secret["metadata"]["labels"] = {PAYLOAD: "true"}
        return CompiledFlow(made, templates, {**secret, "immutable": True}, self._names)

    def _template(self, name: str, entry: Entry) -> Document:
        options = entry.task.options
        template = pod_template(
            options,
            self._surroundings,
            secret=secret_name(self._name),
            world=options.gang.size,
            payload=f"payload-{name}",
            store=self._store,
        )
        policies = (
            {"policies": [{"events": ["PodFailed", "PodEvicted"], "action": "TerminateJob"}]} if options.gang.size > 1 else {}
        )
        if options.ttl == A_DAY:  # a Job of a flow must stay as long as the flow
            options = options.changed({"ttl": None})
        spec = job_spec(options, self._surroundings, options.gang, template, policies=policies)
        checked_spec(with_patch(spec, options.patch), f"task {entry.task.name}")
        return self._object(JOB_TEMPLATES.api_version, JOB_TEMPLATES.kind, self._names[name], {}, spec=spec)

    def _modules_of(self, options: TaskOptions) -> str:
        """Return the name of the Secret entry with the project's modules. Empty when there are no such modules.

        All entries that select the same modules use one Secret entry.
        """
        asked = options.root, tuple(options.include), tuple(options.exclude)
        if asked not in self._modules:
            archive, self._modules[asked] = modules_of(options), ""
            if archive is not None:
                self._modules[asked], content = shared_modules(archive)
                self._shared[self._modules[asked]] = content
        return self._modules[asked]

    def _payload(self, entry: Entry, submission: str) -> Payload:
        options = entry.task.options
        return packed(
            entry.task.function,
            entry.arguments,
            name=entry.task.name,
            job=entry.node.name,
            serializer=options.serializer,
            store=self._store,
            has_files=bool(options.include),
            requirements=requirements_of(options),
            flow=FlowPart(entry.node.name, entry.loop is not None, reference, submission, self._modules_of(options)),
        )

    def _object(self, api_version: str, kind: str, name: str, annotations: Mapping[str, str], **content: object) -> Document:
        metadata: Document = {"name": name, "namespace": self._surroundings.namespace}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


@cache
def _key(submission: str) -> bytes:
    """Return a random key for the results of a flow. In one process it is the same for each call with the same submission."""
    del submission
    return secrets.token_bytes(KEY_BYTES)


def _where(definition: FlowDefinition[..., Any]) -> str:
    """Return the file and line of the flow function."""
    code = inspect.unwrap(definition.function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"
