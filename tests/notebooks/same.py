"""As if the cell had run right there: what that means, as a comparison of two sessions.

Two sessions of one notebook are the same where, after each cell,

* every name that one has the other has, with the same value to the last bit, of the same type;
* the same names are the same object, the same objects hold each other, arrays share memory alike;
* functions and classes do the same and see the same globals;
* the process has the same environment, working directory, module path, random states, options of
  libraries, open figures, and the same files beside the notebook;

and where each cell showed the same: the same text on each stream between the same displays, of the
same types with the same content, pictures to the pixel; the same exception with the same message
from the same line.

What may differ: the job's card; the line that says what was made again in the job; lines of ours
that the notebook announces; HTML that a library displays once in a process, where the notebook says
which; times, rates and addresses within text; what the notebook announces to vary, since two plain
runs of it do; and names that stay in the job, where the notebook says so: one line names each.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.notebooks.percent import Notebook
from tests.notebooks.session import CellRun, run
from tests.notebooks.state import State

CARD = "application/vnd.submarine.job+json"
NOTHING = "nothing"

_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_PLACES = (
    (re.compile(r"0x[0-9a-fA-F]{6,}"), "0x…"),
    (re.compile(r"/\S*/ipykernel_\d+/\d+\.py"), "<cell>"),
)
_TIMES = (
    (re.compile(r"(CPU times|Wall time): .*"), r"\1: …"),
    # tqdm: its bar is as long as there is room beside how long it took, and how fast it went
    (re.compile(r"\|[^|\n]*\|( +\d+/\d+) \[\d+:\d\d(:\d\d)?<[^\]]*\]"), r"|…|\1 […]"),
    # bars and tables of Hugging Face and fastai
    (re.compile(r"\b\d\d:\d\d(?=[,\]<])"), "…"),
    (re.compile(r"('\w+_(?:runtime|per_second)': )\d+\.\d+"), r"\1…"),
    (re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(ns|µs|us|ms|s)(/step|/epoch|/it)?\b"), "… s"),
)
"""What no two runs have alike, in facts and in text, and what stands for it."""


@dataclass(frozen=True)
class Difference:
    """One thing that a user could notice.

    Attributes
    ----------
    cell
        The number of the cell after which it is seen first, from 1.
    what
        The path of the fact, or which output.
    plain, submarine
        How it is there.
    """

    cell: int
    what: str
    plain: str
    submarine: str

    def __str__(self) -> str:
        lines = (
            f"In [{self.cell}] {self.what}",
            f"plain: {self.plain}",
            f"submarine: {self.submarine}",
        )
        return "\n    ".join(lines)


def told_apart(notebook: Notebook, folder: Path, beside: Path | None = None) -> list[Difference]:
    """Run a notebook plain and with its heavy cells as jobs, and return what tells the two apart.

    Raises
    ------
    AssertionError
        A cell of the plain run fails, or does not where it should.
    """
    plain = run(notebook, folder / "plain", jobs=False, beside=beside)
    for cell, ran in zip(notebook.cells, plain, strict=True):
        failed = [output["evalue"] for output in ran.outputs if output["output_type"] == "error"]
        if bool(failed) != ("raises" in cell.tags):
            raise AssertionError(cell.source, failed)
    return differences(notebook, plain, run(notebook, folder / "jobs", jobs=True, beside=beside))


def differences(
    notebook: Notebook, plain: Sequence[CellRun], submarine: Sequence[CellRun]
) -> list[Difference]:
    """Return all that tells two sessions of a notebook apart, each where it is seen first."""
    found: list[Difference] = []
    known: set[tuple[str, str, str]] = set()
    for number, (one, other) in enumerate(zip(plain, submarine, strict=True), start=1):
        pairs = [*_of_states(one.state, other.state, notebook), *_of_outputs(one, other, notebook)]
        found += [Difference(number, *pair) for pair in pairs if pair not in known]
        known |= set(pairs)
    return [*found, *_broken_promises(notebook, submarine)]


def _of_states(one: State, other: State, notebook: Notebook) -> Iterator[tuple[str, str, str]]:
    for path in sorted({*one, *other}, key=_by_depth):
        if notebook.excuses(path):
            continue
        here, there = (_without(_PLACES, state.get(path, NOTHING)) for state in (one, other))
        if here != there:
            yield path, here, there


def _by_depth(path: str) -> tuple[int, str]:
    """Order paths so that a difference comes before those that follow from it."""
    return len(re.findall(r"[.\[<{(]", path)), path


def _broken_promises(notebook: Notebook, submarine: Sequence[CellRun]) -> Iterator[Difference]:
    """Yield what was to stay in the job by promise and did not, or was not named in a line."""
    text = "\n".join(
        line for run in submarine if run.heavy for line in notes(run.outputs, notebook)
    )
    for name in sorted(notebook.stays):
        if not re.search(rf"`?\b{name}\b", text):
            yield Difference(len(submarine), name, "a line that names it", text or NOTHING)


def notes(outputs: Sequence[Any], notebook: Notebook) -> list[str]:
    """Return the lines of ours that a cell shows, of those that the notebook announces."""
    lines = [
        line
        for output in outputs
        if output["output_type"] == "stream" and output["name"] == "stderr"
        for line in output["text"].splitlines()
    ]
    return [line for line in lines if _announced(line, notebook)]


def _announced(line: str, notebook: Notebook) -> bool:
    if line.startswith("made again in the job:"):
        return True
    if notebook.stays and line.startswith("stayed in the job:"):
        return True
    return any(re.fullmatch(pattern, line) for pattern in notebook.says)


def _of_outputs(one: CellRun, other: CellRun, notebook: Notebook) -> Iterator[tuple[str, str, str]]:
    once = notebook.once
    here, there = shown(one.outputs, once=once), shown(other.outputs, notebook, once=once)
    for number in range(max(len(here), len(there))):
        pair = [_at(outputs, number) for outputs in (here, there)]
        if pair[0] != pair[1]:
            yield f"output {number + 1}", *pair
    if other.heavy:
        cards = [o["data"][CARD] for o in other.outputs if CARD in o.get("data", {})]
        if len(cards) != 1:
            yield "cards", "1", str(len(cards))


def _matches(html: str | None, patterns: Sequence[str]) -> bool:
    return html is not None and any(re.fullmatch(each, html, re.DOTALL) for each in patterns)


def _at(outputs: Sequence[str], number: int) -> str:
    return outputs[number] if number < len(outputs) else NOTHING


def shown(
    outputs: Sequence[Any], notebook: Notebook | None = None, *, once: Sequence[str] = ()
) -> list[str]:
    """Return what a cell shows, in order and comparable.

    Between two displays the order within each stream counts, that between the streams does not:
    no front end keeps it. The job's card is left out, and so are lines that `notebook` announces,
    and HTML that matches a pattern of `once`.
    """
    found: list[str] = []
    streams: dict[str, str] = {}

    def end_of_streams() -> None:
        for name in sorted(streams):
            text = settled(streams[name])
            if notebook and name == "stderr":
                kept = [line for line in text.split("\n") if not _announced(line, notebook)]
                text = "\n".join(kept)
            if text:
                found.append(f"{name}: {text}")
        streams.clear()

    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + output["text"]
        elif kind == "error":
            end_of_streams()
            found.append(f"{output['ename']}: {settled(output['evalue'])} at {_line(output)}")
        elif CARD not in output["data"] and not _matches(output["data"].get("text/html"), once):
            end_of_streams()
            found.append(f"{kind}: {json.dumps(_bundle(output['data']), ensure_ascii=False)}")
    end_of_streams()
    return found


def settled(text: str) -> str:
    """Return a text as it stands on screen at its end, without what varies from run to run."""
    text = "\n".join(_overwritten(line).rstrip() for line in text.split("\n"))
    return _without(_TIMES + _PLACES, text)


def _without(rules: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    for pattern, instead in rules:
        text = pattern.sub(instead, text)
    return text


def _overwritten(line: str) -> str:
    """Return what is left of a line that was written over, as a progress bar does."""
    screen = ""
    for piece in line.split("\r"):
        screen = piece + screen[len(piece) :]
    return screen


def _bundle(data: dict[str, Any]) -> dict[str, Any]:
    bundle = {kind: _content(kind, content) for kind, content in sorted(data.items())}
    return {kind: content for kind, content in bundle.items() if "widget-view" not in kind}


def _content(kind: str, content: Any) -> Any:
    if kind == "image/png":
        return _pixels(content)
    return settled(content) if isinstance(content, str) else content


def _pixels(content: str) -> str:
    """Return what a picture shows; its file also says what made it, and when."""
    import hashlib

    from PIL import Image

    with Image.open(io.BytesIO(base64.b64decode(content))) as image:
        digest = hashlib.sha256(image.convert("RGBA").tobytes()).hexdigest()[:12]
        return f"{image.width} by {image.height}, {digest}"


def _line(error: Any) -> str:
    """Return the last line of a cell that a traceback shows: frames below are of libraries."""
    text = _COLOURS.sub("", "\n".join(error["traceback"]))
    frames = re.split(r"^(?=Cell In|File )", text, flags=re.MULTILINE)
    cells = [frame for frame in frames if frame.startswith("Cell In")]
    marked = re.findall(r"^-+> *\d+ (.*)$", cells[-1] if cells else "", re.MULTILINE)
    return marked[-1].strip() if marked else NOTHING
