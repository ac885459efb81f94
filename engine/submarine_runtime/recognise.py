r"""Finds how far a training is at the end of its log: tqdm's and Keras's bars, and plain words.

The driver asks it for code that says nothing itself (`submarine_engine.clusters.tasks`).

tqdm's ``format_meter`` writes ``DESC:  45%|####  | 45/100 [00:01<00:01]`` and draws nested bars
below each other by ``\n`` and ``ESC [A``; Keras writes ``Epoch 3/10`` and then ``12/100 [==>..]``
(Keras 2) or ``12/100 ━━━━`` (Keras 3).

A log may hold anything: every pattern here takes time linear in the text.
"""

from __future__ import annotations

import re

_LONGEST = 64 * 1024
_LONGEST_MESSAGE = 200

_COUNT = r"([0-9]{1,12}) ?/ ?([0-9]{1,12})(?![0-9/])"
_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_TQDM = re.compile(r"([0-9]{1,3})%\|[^|\n]{0,400}\| ([0-9.]{1,15}[kMGTP]?)/[0-9.]{1,15}[kMGTP]?")
_TQDM_WORDS = re.compile(r"[0-9]{1,3}%\|")
_KERAS = re.compile(rf" {{0,12}}{_COUNT} {{1,4}}(?:\[[=>.]{{1,100}}\]|[━╸╺]{{1,100}})")
_EPOCH = re.compile(rf"\bepochs?[ :#\[]{{0,3}}{_COUNT}", re.IGNORECASE)
_STEP = re.compile(
    rf"\b(?:step|iter|iteration|batch|round|trial|fold)s?[ :#\[]{{0,3}}{_COUNT}", re.IGNORECASE
)
_PERCENT = re.compile(
    r"\b(?:progress|done|complete|completed)[ :=]{1,3}([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%"
    r"|(?<![0-9.])([0-9]{1,3}(?:\.[0-9]{1,6})?) ?% (?:done|complete)",
    re.IGNORECASE,
)


def recognise(text: str, epoch: tuple[int, int] | None = None) -> tuple[float, str] | None:
    """Return the progress that the end of a log shows.

    Parameters
    ----------
    text
        The end of the log; of more than 64 Ki characters the last ones count.
    epoch
        The last ``Epoch I/N`` (see `last_epoch`) where it may stand before `text`.

    Returns
    -------
    tuple of float and str, or None
        From 0 to 1, over all epochs where they are counted, and a line for people.
    """
    lines = _lines(text[-_LONGEST:])
    has_heading = True
    for number in range(len(lines) - 1, -1, -1):
        found = _tqdm(lines[number]) or _words(lines[number])
        step = _count(_KERAS.match(lines[number])) if has_heading else None
        if step:
            heading = _heading(lines[:number]) or epoch
            found = _keras(step, heading) if heading else None
            has_heading = heading is not None
        if found:
            fraction, message = found
            return fraction, message[:_LONGEST_MESSAGE]
    return None


def last_epoch(text: str) -> tuple[int, int] | None:
    """Return the last ``Epoch I/N`` of `text`, the end of a log; None where it has none."""
    return _heading(_lines(text[-_LONGEST:]))


def _heading(lines: list[str]) -> tuple[int, int] | None:
    for line in reversed(lines):
        if found := _count(_EPOCH.search(line)):
            return found
    return None


def _lines(text: str) -> list[str]:
    """Return the states of all lines and bars, oldest first, without nested bars and colour."""
    states = re.split(r"[\r\n\b]+", text)
    # A nested bar ends by going up again; the outer one tells how far it all is.
    outer = [state for state in states if not state.endswith("\x1b[A")]
    return [_ANSI.sub("", state) for state in (outer if any(map(_is_bar, outer)) else states)]


def _is_bar(state: str) -> bool:
    return "%|" in state


def _tqdm(line: str) -> tuple[float, str] | None:
    found = _TQDM.search(line)
    if not found or int(found[1]) > 100:  # noqa: PLR2004 - percent
        return None
    fraction = int(found[1]) / 100
    done, total = _number(found[2]), _number(found[0].rpartition("/")[2])
    if done is not None and total and done <= total:
        fraction = done / total  # finer than whole percents
    epoch = _count(_EPOCH.search(line, 0, found.start()))
    message = _TQDM_WORDS.sub("", line[: found.start()]) + found[0].rpartition("| ")[2]
    return (_overall(epoch, fraction) if epoch else fraction), message.strip(" :")


def _keras(step: tuple[int, int], epoch: tuple[int, int]) -> tuple[float, str]:
    # A bar without an epoch (an evaluation, or an epoch that began long ago) would jump back.
    done, total = step
    return _overall(epoch, done / total), f"epoch {epoch[0]}/{epoch[1]}, step {done}/{total}"


def _words(line: str) -> tuple[float, str] | None:
    if match := _EPOCH.search(line):
        if not (epoch := _count(match)):
            return None
        rest = line[match.end() :]
        if step := _count(_STEP.search(rest)):
            return _overall(epoch, step[0] / step[1]), line.strip()
        # With something to tell ("- loss: 0.3") the epoch is over; a bare heading begins it.
        over = any(letter.isalnum() for letter in rest)
        return (epoch[0] if over else epoch[0] - 1) / epoch[1], line.strip()
    if step := _count(_STEP.search(line)):
        return step[0] / step[1], line.strip()
    if percent := _PERCENT.search(line):
        fraction = float(percent[1] or percent[2]) / 100
        return (fraction, line.strip()) if fraction <= 1 else None
    return None


def _overall(epoch: tuple[int, int], fraction: float) -> float:
    return (epoch[0] - 1 + fraction) / epoch[1]


def _count(found: re.Match[str] | None) -> tuple[int, int] | None:
    """Return ``I/N`` where it counts something."""
    if not found:
        return None
    done, total = int(found[1]), int(found[2])
    return (done, total) if 1 <= done <= total else None


def _number(text: str) -> float | None:
    """Return a number as tqdm writes it: ``12``, ``1.5k``."""
    try:
        scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}.get(text[-1:], 1)
        return float(text.rstrip("kMGTP")) * scale
    except ValueError:
        return None
