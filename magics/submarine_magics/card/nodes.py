"""The elements that cards are made of, and their HTML.

A tree holds elements, a few attributes and text, never markup: `serialise` escapes it into HTML,
and ``tree.js`` builds it from text nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from submarine_magics.card.model import web_address

# Words in a row are easier to read than a list of strings.
TAGS = frozenset(
    "a button caption circle code details div g li path polyline pre span "  # noqa: SIM905 - as said above
    "strong summary svg table tbody td text th thead title tr ul".split()
)
ATTRIBUTES = frozenset(
    "class title href target rel role scope open tabindex type disabled "  # noqa: SIM905
    "viewBox points cx cy r d x y".split()
)


@dataclass(frozen=True, slots=True)
class Node:
    """An element.

    Parameters
    ----------
    attributes
        ``data-ticks`` holds the seconds that a running time shows, ``grow`` and ``width`` become
        style, the others are HTML's.
    children
        Elements and text; None keeps the place of an element that is not there now.
    """

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: tuple[Node | str | None, ...] = ()

    def to_json(self) -> list[Any]:
        """Return ``[tag, attributes, [child, …]]``, the form that ``tree.js`` reads."""
        children = [
            child.to_json() if isinstance(child, Node) else child or "" for child in self.children
        ]
        return [self.tag, self.attributes, children]


def node(tag: str, style: str, *children: Node | str | None, **attributes: str) -> Node:
    """Make an element with the class ``smc-STYLE``; ``_`` in attributes' names stands for ``-``.

    Parameters
    ----------
    tag
        The element's, one of HTML or SVG.
    style
        The end of its class; empty for none.
    children
        Elements and text; None keeps the place of an element that is not there now.
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    return Node(tag, {"class": f"smc-{style}", **named} if style else named, children)


def link(style: str, label: str, url: str, title: str) -> Node:
    """Make a link that opens a page of its own.

    Parameters
    ----------
    style
        As for `node`.
    label
        What it is called.
    url
        Its address; `serialise` leaves out what is none of the web.
    title
        What a reader sees who points at it.
    """
    return node(
        "a", style, label, href=url, title=title, target="_blank", rel="noopener noreferrer"
    )


def serialise(part: Node | str | None) -> str:
    """Return `part` as HTML, less the tags, attributes and addresses that no card has."""
    if part is None:
        return ""
    if isinstance(part, str):
        return escape(part.encode("utf-8", "replace").decode(), quote=False)
    tag = part.tag if part.tag in TAGS else "span"
    inside = "".join(map(serialise, part.children))
    return f"<{tag}{_attributes(part)}>{inside}</{tag}>"


def _attributes(part: Node) -> str:
    styles = {"grow": "flex-grow", "width": "width"}
    found = []
    for name, value in part.attributes.items():
        if name in styles:
            found.append(("style", f"{styles[name]}:{value}"))
        elif name == "href":
            found += [("href", value)] if web_address(value) else []
        elif name in ATTRIBUTES or name.startswith(("aria-", "data-")):
            found.append((name, value))
    return "".join(f' {name}="{escape(value)}"' if value else f" {name}" for name, value in found)
