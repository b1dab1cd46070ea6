"""Templates in the syntax of `kubectl -o jsonpath=`: fields, indexes, `[*]`, ranges over lists, and text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

Step: TypeAlias = str | int | None
"""A step of a path: a field, an index, or None for all items."""

_STEP: Final = re.compile(r"""\.([A-Za-z0-9_\-/]+(?:\\\.[A-Za-z0-9_\-/]+)*)|\[(-?\d+)\]|\[(\*)\]|\[['"]([^'"]+)['"]\]|(\.\*)""")
_BLOCK: Final = re.compile(r"\{([^{}]*)\}")
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\"}


class TemplateError(ValueError):
    """The template cannot be parsed. The message contains the invalid piece of the template."""


@dataclass(frozen=True, slots=True)
class _Range:
    path: tuple[Step, ...]
    body: tuple[_Part, ...]


_Part: TypeAlias = "str | tuple[Step, ...] | _Range"


def parse_path(text: str) -> tuple[Step, ...]:
    """Return the steps of a path such as `.items[*].name`. A leading `$` or `@` is the whole value."""
    rest = text.strip().removeprefix("$").removeprefix("@")
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    at = 0
    while at < len(rest) and rest[at:] != ".":
        step = _STEP.match(rest, at)
        if step is None:
            raise TemplateError(f"cannot read {rest[at:]!r} in path {text!r}: fields, [N], [*] and ['NAME'] are understood")
        field, index, every, quoted, _ = step.groups()
        steps.append(field.replace(r"\.", ".") if field else int(index) if index else None if every else quoted or None)
        at = step.end()
    return tuple(steps)


def lookup(value: Any, steps: Sequence[Step]) -> list[Any]:  # noqa: ANN401 - a JSON value
    """Return the values of a document at a path. Empty when the path does not exist."""
    values = [value]
    for step in steps:
        values = [each for one in values for each in _children(one, step)]
    return values


def render(template: str, value: Any) -> str:  # noqa: ANN401 - a JSON value
    """Return the template filled with `value`."""
    pieces = iter(_pieces(template))
    parts = _parsed(pieces, is_nested=False)
    return "".join(_rendered(parts, value))


def _children(value: Any, step: Step) -> list[Any]:  # noqa: ANN401 - a JSON value
    match value, step:
        case Mapping(), None:
            return list(value.values())
        case list() | tuple(), None:
            return list(value)
        case Mapping(), str() if step in value:
            return [value[step]]
        case list() | tuple(), int() if -len(value) <= step < len(value):
            return [value[step]]
    return []


def _pieces(template: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a template. The flag is True for a part in braces."""
    at = 0
    for block in _BLOCK.finditer(template):
        if block.start() > at:
            yield False, template[at : block.start()]
        yield True, block[1].strip()
        at = block.end()
    rest = template[at:]
    if "{" in rest or "}" in rest:
        raise TemplateError(f"a brace is not closed in {rest!r}")
    if rest:
        yield False, rest


def _parsed(pieces: Iterator[tuple[bool, str]], *, is_nested: bool) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    for is_block, text in pieces:
        if not is_block:
            parts.append(text)
        elif text == "end":
            if not is_nested:
                raise TemplateError("{end} stands without {range}")
            return tuple(parts)
        elif text.startswith("range "):
            parts.append(_Range(parse_path(text.removeprefix("range ")), _parsed(pieces, is_nested=True)))
        elif text[:1] in {'"', "'"}:
            parts.append(re.sub(r'\\[nt"\\]', lambda escape: _ESCAPES[escape[0]], text[1:-1]))
        else:
            parts.append(parse_path(text))
    if is_nested:
        raise TemplateError("{range} has no {end}")
    return tuple(parts)


def _rendered(parts: Sequence[_Part], value: Any) -> Iterator[str]:  # noqa: ANN401 - a JSON value
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for each in lookup(value, part.path):
                yield from _rendered(part.body, each)
        else:
            yield " ".join(each if isinstance(each, str) else orjson.dumps(each).decode() for each in lookup(value, part))
