"""The card as static HTML: self-contained, no script, readable even where its style is taken away.

GitHub and untrusted notebooks strip ``<style>`` and most attributes: what is left are lines of text
in a sensible order, a table and two foldable parts.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from submarine_magics import frontend
from submarine_magics.card.model import CardView, web_address
from submarine_magics.card.tree import Node, card_tree, footer_tree, script_tree

# Words in a row are easier to read than a list of strings.
TAGS = frozenset(
    "a button caption code details div li pre span strong "  # noqa: SIM905 - as said above
    "summary table tbody td th thead tr ul".split()
)
ATTRIBUTES = frozenset(
    "class title href target rel role scope open tabindex type disabled".split()  # noqa: SIM905
)


def to_html(card: CardView, note: str = "", *, styled: bool = True) -> str:
    """Return the card with its script and where its log is, in one line.

    Parameters
    ----------
    note
        For the reader.
    styled
        Whether the style comes along: the cards of one page need it once.
    """
    root = card_tree(card)
    script = script_tree(card.script, card.log_path or "the job's folder") if card.script else None
    notes = ". ".join(filter(None, (card.as_of, note)))
    last = Node("div", {"class": "smc-foot"}, (notes,)) if notes else None
    attributes = dict(root.attributes)
    if frontend.current.white:
        attributes["class"] += " smc-light"
    whole = Node(root.tag, attributes, (*root.children, script, footer_tree(card), last))
    text = serialise(whole).replace("\n", "&#10;")  # a saved card that differs differs in a line
    return f"<style>{style()}</style>{text}" if styled else text


@cache
def style() -> str:
    """Return the card's style sheet, the same for the static card and the live one."""
    return files(__package__).joinpath("card.css").read_text("utf-8")


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
