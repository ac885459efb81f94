"""A task's output as one text: both logs in their order, with times, and displays between."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submarine_engine.history import JobPaths
from submarine_engine.masking import masker_of
from submarine_jupyter import log_index, output
from submarine_jupyter.output import MOST_SHOWN, Output

from tests.jobs import until

JOB = "20250101-000000-abcde"


class Written:
    """A task's files, written as the runtime writes them."""

    def __init__(self, home):
        self.paths = JobPaths(home, JOB)
        self.files = self.paths.task("worker-0")
        self.files.root.mkdir(parents=True)
        self.output = Output(self.paths, "worker-0")
        self.clock = 1000.0

    def moment(self):
        self.clock += 1.0
        self.add(self.files.moments, json.dumps([self.clock, *self.sizes]) + "\n")

    @property
    def logs(self):
        return self.files.stdout, self.files.stderr

    @property
    def sizes(self):
        return [log.stat().st_size if log.exists() else 0 for log in self.logs]

    def write(self, stream, text, *, moment=True):
        if moment:
            self.moment()
        self.add(self.logs[stream], text)

    def show(self, text="", *, kind="display", display_id=None, **more):
        sizes = self.sizes
        frame = {"kind": kind, "id": display_id, "data": {"text/plain": text}, "metadata": {}}
        frame |= {"stdout": sizes[0], "stderr": sizes[1], **more}
        self.add(self.files.displays, json.dumps(frame) + "\n")

    @staticmethod
    def add(path, text):
        with path.open("a") as file:
            file.write(text)

    def read(self, start=0, count=1000):
        while not self.output.grow(7):
            pass
        return self.output.read(start, count)

    def shown(self):
        self.read()
        told = self.output.shown()
        return [
            (item["line"], self.output.display(item["offset"])["data"]["text/plain"])
            for item in told["displays"]
        ]


@pytest.fixture
def written(tmp_path):
    return Written(tmp_path)


PIECES = st.lists(st.tuples(st.integers(0, 1), st.text("ab\n", max_size=6)), max_size=12)


@settings(deadline=None)
@given(pieces=PIECES, start=st.integers(0, 12), count=st.integers(1, 12))
def test_lines_stand_where_they_began_however_the_logs_grew(tmp_path_factory, pieces, start, count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_index, "CHUNK", 8)
        written = Written(tmp_path_factory.mktemp("home"))
        lines: list[tuple[int, str]] = []
        open_lines: dict[int, int] = {}
        for stream, text in pieces:
            written.write(stream, text)
            for piece in text.splitlines(keepends=True):
                if stream in open_lines:
                    at = open_lines.pop(stream)
                    lines[at] = stream, lines[at][1] + piece.rstrip("\n")
                else:
                    at = len(lines)
                    lines.append((stream, piece.rstrip("\n")))
                if not piece.endswith("\n"):
                    open_lines[stream] = at
            told = written.read(start, count)
            assert list(zip(told["streams"], told["lines"], strict=True)) == lines[start:][:count]
            assert told["total"] == len(lines)
        found = written.output.search("ab", start, 1000)
        wanted = [n for n, (_, text) in enumerate(lines) if "ab" in text and n >= start]
        assert found == {"lines": wanted, "next": None}
        raw, number = written.output.raw(0, 1000)
        assert raw.decode() == "".join(f"{text}\n" for _, text in lines)
        assert number == len(lines)


def test_a_line_has_the_time_of_its_moment_and_none_before_the_first(written):
    written.write(0, "early\n", moment=False)
    written.write(1, "one\n")
    written.write(0, "two\nthree\n")
    assert written.read()["times"] == [None, 1001.0, 1002.0, 1002.0]


def test_a_search_of_much_goes_on_where_it_stopped(written):
    for number in range(20):
        written.write(number % 2, f"line {number}\n")
    written.read()
    first = written.output.search("line", 0, 5)
    assert first == {"lines": [0, 1, 2, 3, 4], "next": 5}
    found, at = [], 0
    while at is not None:
        told = written.output.search("line", at, 3)
        found += told["lines"]
        at = told["next"]
    assert found == list(range(20))


def test_displays_stand_between_the_lines_and_change_in_their_place(written):
    written.show("first of all")
    written.write(0, "a\n")
    written.write(1, "b\n")
    written.show("figure", display_id="one")
    written.write(0, "c\n")
    written.show("table")
    assert written.shown() == [(0, "first of all"), (2, "figure"), (3, "table")]
    written.show("newer", display_id="one", kind="update")
    assert written.shown() == [(0, "first of all"), (2, "newer"), (3, "table")]
    written.show(kind="clear", wait=True)
    assert len(written.shown()) == 3
    written.show("alone")
    assert written.shown() == [(3, "alone")]
    written.show(kind="clear", wait=False)
    assert written.shown() == []


def test_without_moments_displays_tell_the_order(written):
    written.write(0, "a\n", moment=False)
    written.show("one")
    written.write(1, "warning\n", moment=False)
    written.write(0, "b\n", moment=False)
    written.show("two")
    written.write(0, "c\n", moment=False)
    told = written.read()
    assert told["lines"] == ["a", "b", "warning", "c"]
    assert told["times"] == [None] * 4
    assert written.shown() == [(1, "one"), (3, "two")]


def test_of_very_many_displays_the_last_are_told(written):
    for number in range(MOST_SHOWN + 3):
        written.show(str(number))
    written.read()
    told = written.output.shown()
    assert (len(told["displays"]), told["left_out"]) == (MOST_SHOWN, 3)


def test_the_more_is_displayed_the_longer_takes_no_display(written, monkeypatch):
    class Counted(output._PlacedDisplay):
        @property
        def display_id(self):
            looks.append(1)
            return self._display_id

        @display_id.setter
        def display_id(self, display_id):
            self._display_id = display_id

    looks = []
    monkeypatch.setattr(output, "_PlacedDisplay", Counted)
    for number in range(200):
        written.show("first", display_id=str(number))
    written.show("again", display_id="7")
    written.show("newer", display_id="9", kind="update")
    written.read()
    assert len(looks) < 400  # 20,000 displays took a quarter of a minute
    texts = [text for _, text in written.shown()]
    assert (len(texts), texts[7], texts[9], texts[-1]) == (201, "again", "newer", "again")


def test_an_output_that_was_cut_begins_anew(written):
    written.write(0, "one\n")
    written.write(1, "two\n")
    assert written.read()["lines"] == ["one", "two"]
    written.files.stdout.write_text("a\n")
    assert sorted(written.read()["lines"]) == ["a", "two"]


def test_displays_that_the_job_has_cut_are_those_that_there_are(written):
    for text in ("first", "second", "third"):
        written.show(text)
    assert [text for _, text in written.shown()] == ["first", "second", "third"]
    last = written.output.shown()["displays"][-1]["offset"]
    first = written.files.displays.read_text().splitlines(keepends=True)[0]
    written.files.displays.write_text(first)
    with pytest.raises(FileNotFoundError):
        written.output.display(last)
    assert [text for _, text in written.shown()] == ["first"]
    written.files.displays.write_text("x" * 2 * len(first) + "\n")
    with pytest.raises(FileNotFoundError):
        written.output.display(0)


def test_moments_that_go_back_are_not_looked_up(written, monkeypatch):
    asked = []

    def counted(self, log, end):
        asked.append(end)
        return known(self, log, end)

    known = log_index.LineIndex.lines_before
    monkeypatch.setattr(log_index.LineIndex, "lines_before", counted)
    for stream in range(2):
        written.write(stream, "text\n" * 200, moment=False)
    for place in range(500, 900):
        sizes = [place, 5][:: 1 if place % 2 else -1]
        written.add(written.files.moments, json.dumps([1.0, *sizes]) + "\n")
    assert len(written.read()["lines"]) == 400
    assert len(asked) < 500  # those that go back would read a log again and again


@pytest.mark.parametrize(
    "line",
    ["", "{}", "[1.0, 2]", '[1.0, "0", 0]', "[1.0, -1, 0]", "[NaN, 0, 0]", "[true, 0, 0]",
     "[1e300, 0, 0]", "[1.0, 0, 0, 0]", "[" * 5000, "[1.0, 99999999999999999999, 0]"],
)  # fmt: skip
def test_moments_that_are_none_are_passed_over(written, line):
    written.add(written.files.moments, f"{line}\n")
    written.write(1, "warning\n")
    written.write(0, "text\n")
    assert written.read()["lines"] == ["warning", "text"]


def test_a_link_in_place_of_the_moments_leads_nowhere(written, tmp_path):
    (tmp_path / "other").write_text("[1.0, 0, 0]\n")
    written.files.moments.symlink_to(tmp_path / "other")
    written.write(0, "text\n", moment=False)
    assert written.read()["times"] == [None]


TALKS = """
import sys
from IPython.display import HTML, display
print("one")
print("two", file=sys.stderr)
display(HTML("<b>x</b>"))
print("three")
"""


def test_the_routes_of_an_output(server, submit):
    job_id = submit(TALKS)
    until(lambda: submit.cluster.status(job_id).state.final)
    output = f"/api/jobs/{job_id}/output/worker-0"
    told = server.get(f"{output}/lines").json()
    assert (told["lines"], told["streams"]) == (["one", "two", "three"], [0, 1, 0])
    assert all(told["times"])
    card = server.get(f"/api/jobs/{job_id}/card").json()
    [mine] = card["outputs"]
    assert 0 <= told["times"][0] - mine["began"] < 600
    assert mine["shown"] > 0
    assert server.get(f"{output}/search", params={"text": "TWO"}).json()["lines"] == [1]
    [shown] = server.get(f"{output}/displays").json()["displays"]
    assert shown["line"] == 2
    bundle = server.get(f"{output}/display", params={"offset": shown["offset"]}).json()
    assert bundle["data"]["text/html"] == "<b>x</b>"
    assert server.get(f"{output}/display", params={"offset": 10**9}).status_code == 404
    file = server.get(f"{output}/file")
    assert file.text == "one\ntwo\nthree\n"
    assert file.headers["Content-Disposition"].endswith(f'"{job_id}-worker-0.log"')
    for path in ("lines", "displays", "file"):
        assert server.get(f"/api/jobs/{job_id}/output/worker-7/{path}").status_code == 404


def test_a_question_is_text_and_nothing_that_is_shown(written):
    written.write(0, "name? ")
    written.show(kind="question", number=1, prompt="name? ")
    written.show("figure")
    assert written.shown() == [(1, "figure")]


def test_what_may_become_a_secret_is_not_shown_while_the_job_runs(written, write_steady_marks):
    token = "0123456789" * 3
    write_steady_marks(written.paths.root, [("TOKEN", token)])
    masker_of.cache_clear()
    written.output = Output(written.paths, "worker-0")
    written.write(0, f"first\nit is {token[:15]}")
    assert written.read()["lines"] == ["first", f"it is {'*' * 15}"]
    assert written.output.raw(0, 9)[0] == f"first\nit is {'*' * 15}\n".encode()
    assert written.output.search("0123", 0, 9)["lines"] == []
    written.write(0, f"{token[15:]} and 0123\n")
    masked = "<secret TOKEN>".ljust(len(token), "*")
    assert written.read()["lines"] == ["first", f"it is {masked} and 0123"]


@pytest.mark.parametrize(("state", "shown"), [("succeeded", "0123456789"), ("running", "*" * 10)])
def test_a_log_that_ends_like_a_secret_is_shown_once_the_job_is_over(
    written, state, shown, write_steady_marks
):
    write_steady_marks(written.paths.root, [("TOKEN", "0123456789" * 3)])
    written.paths.status.write_text(json.dumps({"version": 1, "state": state}))
    masker_of.cache_clear()
    written.output = Output(written.paths, "worker-0")
    written.write(1, "it is 0123456789")
    assert written.read()["lines"] == [f"it is {shown}"]
