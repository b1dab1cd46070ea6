"""References to values, `${entries.NAME.outputs…}` and `${parameters.NAME}`, in the patch of an entry.

A reference is an expression. Its value is text that nobody reviewed: a program wrote it, or somebody who submits the flow of
another person. So a value never becomes structure. It takes the place of a string or a number, and of no key. Outputs may stand
only in the places below, which grant no rights. Kubernetes expands `$(NAME)` in arguments and variables, so a `$` of a value is
doubled there. No value may be a part of a program text such as the script of `sh -c`: a value could end the text's quotes and
add commands. `scripts` finds those places in the whole spec, since the template may have the shell and the patch the arguments.

All other texts with `${…}` stay as they are: they are variables of shells. `$${entries.…}` stands for `${entries.…}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from pyroclast.lifecycle.flow.patch import PatchError

Json: TypeAlias = Any
Path: TypeAlias = tuple[str | int, ...]

MOST_REFERENCES: Final = 100
"""The most different references of one entry; each is evaluated with the budget of a condition."""
MOST_TEXT: Final = 262_144
"""The most characters that the values of one entry's patch may have together: many references may have one long value."""

_BEGIN: Final = re.compile(r"\$(\$?)\{(?= *(?:entries|parameters)(?:\.|\[[\"']))")


class Place(Enum):
    """The kind of a place for a value."""

    TEXT = "text"
    EXPANDED = "expanded"
    """A text in which Kubernetes expands `$(NAME)`."""
    COUNT = "count"
    """A whole number."""


_OF_A_CONTAINER: Final[Mapping[tuple[str, ...], Place]] = {
    ("env", "*", "value"): Place.EXPANDED,
    ("command", "*"): Place.EXPANDED,
    ("args", "*"): Place.EXPANDED,
    ("image",): Place.TEXT,
    ("workingDir",): Place.TEXT,
    ("resources", "limits", "*"): Place.TEXT,
    ("resources", "requests", "*"): Place.TEXT,
}
_OF_A_POD: Final[Mapping[tuple[str, ...], Place]] = {
    **{("spec", kind, "*", *rest): place for kind in ("containers", "initContainers") for rest, place in _OF_A_CONTAINER.items()},
    ("metadata", "labels", "*"): Place.TEXT,
    ("metadata", "annotations", "*"): Place.TEXT,
    ("spec", "nodeSelector", "*"): Place.TEXT,
    ("spec", "volumes", "*", "persistentVolumeClaim", "claimName"): Place.TEXT,
    ("spec", "activeDeadlineSeconds"): Place.COUNT,
    ("spec", "terminationGracePeriodSeconds"): Place.COUNT,
}
PLACES: Final[Mapping[tuple[str, ...], Place]] = {
    **{("tasks", "*", "template", *rest): place for rest, place in _OF_A_POD.items()},
    **{("tasks", "*", name): Place.COUNT for name in ("replicas", "minAvailable", "maxRetry")},
    **{(name,): Place.COUNT for name in ("minAvailable", "minSuccess", "maxRetry", "ttlSecondsAfterFinished")},
    ("runningEstimate",): Place.TEXT,
}
"""The places of a Job's spec in which outputs may stand; a star is any index or key. Parameters may stand in any string."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference in a text."""

    source: str
    """The expression."""

    @property
    def reads_entries(self) -> bool:
        """Whether the expression reads entries, so that its value is known only while the flow runs."""
        return "entries" in self.source


def pieces(text: str) -> tuple[str | Reference, ...]:
    """Return `text` as texts and references.

    Raises ValueError: a reference has no end.
    """
    found: list[str | Reference] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        before = text[at : begin.start()]
        if begin[1]:
            found.append(f"{before}${{")
            at = begin.end()
            continue
        end = text.find("}", begin.end())
        if end < 0:
            raise ValueError(f"{text[begin.start() :][:40]} has no closing brace; $${{ stands for a text with ${{")
        found += [before, Reference(text[begin.end() : end].strip())]
        at = end + 1
    return tuple(each for each in (*found, text[at:]) if each != "")


def is_marked(text: str) -> bool:
    """Whether `text`, also the JSON of a patch, contains a reference, or a doubled `$` that stands for one."""
    return _BEGIN.search(text.replace('\\"', '"')) is not None


def has_references(text: object) -> bool:
    """Whether `text` contains a reference."""
    return isinstance(text, str) and any(not found[1] for found in _BEGIN.finditer(text))


def texts_of(patch: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each string of a patch that may contain a reference, with its path. The patch is not nested too deeply.

    Raises PatchError: a key contains a reference.
    """
    if isinstance(patch, str) and "${" in patch:
        yield path, patch
    elif isinstance(patch, Mapping):
        for name, value in patch.items():
            if has_references(name):
                raise PatchError(shown(path), f'the name "{name}" must not contain a reference; only values may')
            yield from texts_of(value, (*path, name))
    elif isinstance(patch, list):
        for index, value in enumerate(patch):
            yield from texts_of(value, (*path, index))


def sources_of(patch: Json) -> tuple[str, ...]:
    """Return the different expressions in the references of a patch, in their order.

    Raises PatchError: a reference is malformed, or there are too many.
    """
    sources: dict[str, None] = {}
    for path, text in texts_of(patch):
        try:
            sources.update(dict.fromkeys(each.source for each in pieces(text) if isinstance(each, Reference)))
        except ValueError as error:
            raise PatchError(shown(path), str(error)) from None
        if len(sources) > MOST_REFERENCES:
            raise PatchError(shown(path), f"the patch has more than {MOST_REFERENCES} different references")
    return tuple(sources)


def place_of(path: Path) -> Place | None:
    """Return the kind of the place at `path` of a patch (`spec` or `jobSpec` first); None when outputs must not stand there."""
    stars = tuple("*" if isinstance(part, int) else part for part in path[1:])
    found = PLACES.get(stars)
    return PLACES.get((*stars[:-1], "*")) if found is None and stars and isinstance(path[-1], str) else found


def substituted(patch: Json, value_at: Callable[[Reference, Path], Json]) -> Json:
    """Return `patch` with the values in the places of the references. `value_at` returns the value of a reference at a path.

    Raises PatchError: a value does not fit its place, or the values are too long together.
    """
    left = MOST_TEXT

    def changed(node: Json, path: Path) -> Json:
        nonlocal left
        if isinstance(node, str) and "${" in node:
            value, size = _placed(node, path, value_at)
            left -= size
            if left < 0:
                raise PatchError(shown(path), f"the values of the patch have more than {MOST_TEXT} characters together")
            return value
        if isinstance(node, Mapping):
            return {name: changed(value, (*path, name)) for name, value in node.items()}
        if isinstance(node, list):
            return [changed(value, (*path, index)) for index, value in enumerate(node)]
        return node

    return changed(patch, ())


def _placed(text: str, path: Path, value_at: Callable[[Reference, Path], Json]) -> tuple[Json, int]:
    """Return the value of a string with references, and how many characters the values have."""
    parts, place, size = pieces(text), place_of(path), 0
    if place is Place.COUNT and any(isinstance(part, Reference) for part in parts) and len(parts) > 1:
        raise PatchError(shown(path), "must be a single reference, because the field is a number")
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        value = value_at(part, path)
        if not isinstance(value, str | int | float):
            kind = "null" if value is None else "a list" if isinstance(value, list) else "a map"
            raise PatchError(shown(path), f"{part.source} is {kind}, but must be a string, a number or a boolean")
        if place is Place.COUNT:
            return _count(value, part, path), 0
        if place is None and len(parts) == 1:
            return value, 0
        shown_value = text_of(value)
        size += len(shown_value)
        texts.append(shown_value.replace("$", "$$") if place is Place.EXPANDED else shown_value)
    return "".join(texts), size


def _count(value: str | float, part: Reference, path: Path) -> int:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int):
        raise PatchError(shown(path), f"{part.source} must be a whole number, but is {text_of(value)[:100]!r}")
    return whole


def text_of(value: Json) -> str:
    """Return a value as text: a string as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shown(path: Path) -> str:
    """Return a path in the form of the API, from the root of the patch: `patch.spec.tasks[0].replicas`."""
    return "patch" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


_SHELLS: Final = frozenset({
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd", "su",
})  # fmt: skip
_INTERPRETERS: Final = frozenset({
    "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "rscript", "r", "julia", "tclsh",
    "psql", "mysql",
})  # fmt: skip
_EDITORS: Final = frozenset({"awk", "gawk", "mawk", "nawk", "sed", "ssh"})
_VERSION: Final = re.compile(r"[-.0-9]+$|\.exe$")
_SHELL_OPTION: Final = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*|--command|/c", re.IGNORECASE)
_CODE_OPTION: Final = re.compile(r"-\w*[ceErpR]|--(eval|print|exec|execute|expression|command)(=|$)")
_EXPANSION: Final = re.compile(r"(\$+)\(([^()]+)\)")


def scripts(argv: Sequence[str]) -> Iterator[int]:
    """Yield the positions of program texts in a command with its arguments: in `sh -c TEXT`, `python -c TEXT`, `awk TEXT`.

    In doubt, a position is yielded: the program of a file may have an option `-c` too.
    """
    for begin, word in enumerate(argv):
        program = _VERSION.sub("", word.rpartition("/")[2].lower())
        if program in _SHELLS:
            codes = [at for at in range(begin + 1, len(argv)) if _SHELL_OPTION.fullmatch(argv[at])]
            for at in codes:
                text = next((other for other in range(at + 1, len(argv)) if argv[other][:1] not in {"-", "+"}), len(argv))
                yield from range(at + 1, min(text + 1, len(argv)))
        elif program in _INTERPRETERS:
            for at in range(begin + 1, len(argv)):
                if _CODE_OPTION.match(argv[at]):
                    yield from range(at, min(at + 2, len(argv)))
                elif not argv[at].startswith("-") and ("/" in argv[at] or "." in argv[at] or argv[at - 1] == "-m"):
                    break  # the file or module to run; its arguments follow
        elif program in _EDITORS:
            yield from (at for at in range(begin + 1, len(argv)) if argv[at - 1] != "-v")


def script_faults(spec: Json, *, has_item: bool = False) -> Iterator[PatchError]:
    """Yield each program text of a Job's spec that a value would become a part of. `has_item`: VC_FLOW_ITEM holds an output."""
    for number, task in enumerate(_list(spec, "tasks")):
        template = task.get("template") if isinstance(task, Mapping) else None
        pod = template.get("spec") if isinstance(template, Mapping) else None
        for kind in ("initContainers", "containers"):
            for index, container in enumerate(_list(pod, kind)):
                path = f"tasks[{number}].template.spec.{kind}[{index}]"
                if isinstance(container, Mapping) and (fault := _script_fault(container, has_item)):
                    yield PatchError(path, fault)


def _script_fault(container: Mapping[str, Json], has_item: bool) -> str:
    variables = {"VC_FLOW_ITEM"} if has_item else set()
    for each in _list(container, "env"):
        if isinstance(each, Mapping) and _is_filled(each.get("value"), variables):
            variables.add(str(each.get("name")))
    argv = [str(each) for name in ("command", "args") for each in _list(container, name)]
    for position in scripts(argv):
        if _is_filled(argv[position], variables):
            return (
                f"the text {argv[position][:80]!r} is a program, and a value in it could add commands; "
                'set an environment variable to the value with env, and read it in the program, in a shell as "$NAME" in quotes'
            )
    return ""


def _is_filled(text: object, variables: set[str]) -> bool:
    """Whether a value becomes a part of `text`: by a reference, or because Kubernetes expands `$(NAME)` of a filled variable."""
    if not isinstance(text, str):
        return False
    return has_references(text) or any(len(found[1]) % 2 and found[2] in variables for found in _EXPANSION.finditer(text))


def _list(body: Json, name: str) -> list[Json]:
    found = body.get(name) if isinstance(body, Mapping) else None
    return found if isinstance(found, list) else []
