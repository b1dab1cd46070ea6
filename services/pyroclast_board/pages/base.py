"""The common code of all pages: the viewer's scope, and sections of HTML that are updated one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pyroclast.views.groups import is_native
from pyroclast.views.readable import Amounts, amount, as_text, hours_text, human_duration, readable

EMPTY: Final = Markup()
MOST_ROWS: Final = 20_000
LONGEST: Final = 317
"""Most characters of a value in a URL: enough for every namespaced name."""

ICONS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("Completed", "Succeed", "Succeeded", "Open", "Ready", "led"), ("✔", "good")),
    **dict.fromkeys(("Running", "Restarting", "Completing", "Terminating", "Aborting"), ("▶", "busy")),
    **dict.fromkeys(("Pending", "Waiting", "Inqueue", "Closing"), ("…", "waits")),
    **dict.fromkeys(("Skipped", "Closed", "Cordoned", "Removed"), ("↷", "off")),
    **dict.fromkeys(("Failed", "Terminated", "Aborted", "NotReady", "Evicted", "silent"), ("✘", "bad")),
    **dict.fromkeys(("OutOfMemory", "NodeFailed", "TimedOut", "Unknown", "Warning"), ("✘", "bad")),
}
"""The icon and the colour class for each word of a state. The word itself is always shown beside the icon."""


Ends = Mapping[tuple[str, str], tuple[float, str]]
"""When running Jobs end, in seconds since the epoch, and the basis of that, by namespace and name."""


class NoPage(Exception):
    """The page does not exist, or the viewer may not see it."""


class BadRequest(Exception):
    """A parameter of a URL cannot be parsed. The message names the parameter and its valid values."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces whose Jobs a viewer may see: all of them or some. Jobs of other namespaces are counted, but not named."""

    is_all: bool = False
    namespaces: frozenset[str] = frozenset()

    def sees(self, namespace: str) -> bool:
        """Return whether the names of Jobs in a namespace may be shown."""
        return self.is_all or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that is replaced as a whole, or row by row if it has `rows`.

    Attributes:
        head: the header row of those rows.
        is_half: whether a wide window shows the section beside another half section.
    """

    id: str
    html: Markup = EMPTY
    head: Markup = EMPTY
    rows: tuple[tuple[str, Markup], ...] | None = None
    is_half: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its title and sections, its place in the navigation, and whether changes are streamed while it is open."""

    title: str
    place: str
    sections: Sequence[Section] = field(default_factory=tuple)
    is_live: bool = True


class Templates:
    """The HTML templates. All text in them is escaped."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("pyroclast_board"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "duration": lambda seconds: "–" if seconds is None else human_duration(seconds),
            "amounts": lambda amounts: as_text(amounts) or "–",
            "separate_amounts": _separate_amounts,
            "hours": lambda hours: "–" if hours is None else hours_text(hours),
            "readable": shown_amount,
            "moment": shown_moment,
            "segment": lambda text: quote(str(text), safe=""),
            "picture": lambda picture: Markup(picture.inline()),  # noqa: S704 - its elements escape each text
        }
        self._rows: dict[tuple[str, str, tuple[str, ...]], tuple[object, Markup]] = {}
        self._environment.globals |= {"icon_of": lambda word: ICONS.get(word, ("·", "other")), "is_native": is_native, "url": url}

    def render(self, name: str, **values: Any) -> Markup:  # noqa: ANN401 - whatever a template shows
        """Return the HTML of the template `name` with these values."""
        return Markup(self._environment.get_template(name).render(values))  # noqa: S704 - autoescaped

    def row(self, name: str, key: str, shown: object, columns: tuple[str, ...]) -> Markup:
        """Return the HTML of a table row. `shown` is immutable, so its HTML is cached, because most rows are shown repeatedly."""
        known = self._rows.get((name, key, columns))
        if known is not None and known[0] is shown:
            return known[1]
        html: Markup = self.macro(name, "row")(shown, columns)
        if len(self._rows) >= MOST_ROWS:
            self._rows.clear()
        self._rows[name, key, columns] = (shown, html)
        return html

    def macro(self, name: str, macro: str) -> Any:  # noqa: ANN401 - a macro of a template
        """Return a macro of a template."""
        return getattr(self._environment.get_template(name).module, macro)


def checked(query: Mapping[str, str], known: Sequence[str]) -> Mapping[str, str]:
    """Return the parameters of a URL that are not empty."""
    for name, value in query.items():
        if name not in known:
            raise BadRequest(f'there is no parameter "{name[:64]}"; there are {", ".join(sorted(known))}')
        if len(value) > LONGEST or "\0" in value:
            raise BadRequest(f"{name}: at most {LONGEST} characters, none of them NUL")
    return {name: value for name, value in query.items() if value}


def url(path: str, query: Mapping[str, object] | None = None, **changes: object) -> str:
    """Return a URL of the board with the changed parameters, without empty ones."""
    merged = {**(query or {}), **changes}
    given = {name: str(value) for name, value in merged.items() if value not in {None, ""}}
    return f"{path}?{urlencode(given)}" if given else path


def shown_moment(text: object) -> str:
    """Return an API time in a readable form, to the second."""
    return str(text).removesuffix("Z").replace("T", " ")[:19]


def shown_amount(value: object, name: str) -> str:
    """Return one amount as text. CPUs are shown as a decimal fraction."""
    return f"{float(amount(value)):.6g}" if name == "cpu" else readable(name, value)


def _separate_amounts(amounts: Amounts) -> Markup:
    """Return amounts as HTML in which lines only break between amounts."""
    parts = as_text(amounts).replace(", ", ",\n").splitlines()
    return Markup(" ").join(Markup('<span class="amounts">{}</span>').format(part) for part in parts) or Markup("–")
