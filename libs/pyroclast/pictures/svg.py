"""SVG elements, in which every text is escaped, and pictures made of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Final

CHARACTER_WIDTH: Final = 7.3
"""The width of a character in the font of all texts, in units of the picture."""

HEADLINE: Final = 20
"""The height of the title line at the top of each picture."""

STYLE: Final = """\
svg.picture text{font:12px ui-monospace,monospace;fill:#1a202c}
svg.picture text.faint{fill:#4a5568}
svg.picture text.strong{font-weight:bold}
svg.picture line,svg.picture path{stroke:#718096;fill:none}
svg.picture rect.frame{fill:none;stroke:#718096}
svg.picture rect.box{fill:#fff;stroke:#4a5568}
svg.picture rect.critical,svg.picture path.critical{stroke:#c05621;stroke-width:2.5}
svg.picture line.mark{stroke:#1a202c;stroke-width:2}
svg.picture rect.kept{stroke:#1a202c;stroke-width:2;stroke-dasharray:4 3}
svg.picture text.cell{fill:#000}
@media(prefers-color-scheme:dark){
svg.picture text{fill:#e2e8f0}
svg.picture text.faint{fill:#a0aec0}
svg.picture line,svg.picture path,svg.picture rect.frame{stroke:#a0aec0}
svg.picture rect.box{fill:#1a202c;stroke:#a0aec0}
svg.picture rect.critical,svg.picture path.critical{stroke:#f6ad55}
svg.picture line.mark,svg.picture rect.kept{stroke:#fff}
svg.picture text.cell{fill:#000}
}
"""
"""The style of a picture. A document contains it; a web page has it in a stylesheet, because its policy forbids inline styles."""

_BACKGROUND: Final = """\
svg.picture{background:#fff}
@media(prefers-color-scheme:dark){svg.picture{background:#1a202c}}
"""

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with a width and a height, made of elements. `has_links`: readers then find its parts, not one picture."""

    title: str
    width: float
    height: float
    elements: tuple[str, ...]
    has_links: bool = False

    def document(self) -> str:
        """Return a complete SVG document. Its background suits the colours of the text, on a light or dark page."""
        return self._written(f"<style>{STYLE}{_BACKGROUND}</style>")

    def inline(self) -> str:
        """Return the element `svg` for a page that has `STYLE` in a stylesheet and the title as a heading."""
        return self._written("", top=HEADLINE)

    def _written(self, style: str, *, top: int = 0) -> str:
        height = f"{self.height - top:.0f}"
        size = f'width="{self.width:.0f}" height="{height}" viewBox="0 {top} {self.width:.0f} {height}"'
        role = "group" if self.has_links else "img"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="{role}" {size}>'
        return "".join([head, f"<title>{_escaped(self.title)}</title>", style, *self.elements, "</svg>"])


def element(tag: str, attributes: dict[str, object], *, content: str = "", title: str = "", inner: str = "") -> str:
    """Return one element. `content` and `title` may be any text, `inner` comes from this module. None omits an attribute."""
    written = "".join(f' {name}="{_value(value)}"' for name, value in attributes.items() if value is not None and value != "")
    told = f"<title>{_escaped(title)}</title>" if title else ""
    return f"<{tag}{written}>{told}{_escaped(content)}{inner}</{tag}>"


def text(x: float, y: float, content: str, *, kind: str = "", anchor: str = "") -> str:
    """Return a text that begins at a point, is centred on it (`anchor` middle), or ends at it (`end`)."""
    return element("text", {"x": x, "y": y, "class": kind, "text-anchor": anchor}, content=content)


def linked(url: str, inner: str) -> str:
    """Return the element as a link; unchanged without a URL."""
    return element("a", {"href": url}, inner=inner) if url else inner


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = "",
    kind: str = "",
    title: str = "",
    rounded: float | None = None,
) -> str:
    """Return a rectangle. `title`: the text shown while the pointer is over the rectangle."""
    attributes: dict[str, object] = {"x": x, "y": y, "width": width, "height": height}
    return element("rect", {**attributes, "rx": rounded, "fill": fill, "class": kind}, title=title)


def line(x: float, y: float, to_x: float, to_y: float, *, kind: str = "", title: str = "") -> str:
    """Return the SVG element of a straight line."""
    return element("line", {"x1": x, "y1": y, "x2": to_x, "y2": to_y, "class": kind}, title=title)


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else _escaped(str(value))


def _escaped(content: str) -> str:
    """Return the text with special characters escaped, and characters replaced that XML does not allow."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", content))
