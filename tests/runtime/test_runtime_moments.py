"""When the text was written: order of both streams, times, and what is not disturbed by it."""

from __future__ import annotations

import json
from itertools import groupby, pairwise
from operator import itemgetter

from submarine_runtime import moments


def noted(task):
    path = task.folder / moments.FILE
    return [json.loads(line) for line in path.read_text().splitlines()]


def in_order(task):
    """Return the pieces of both logs as the moments cut them, those of one stream together."""
    logs = [(task.folder / name).read_bytes() for name in ("stdout", "stderr")]
    places = [place for _, *place in noted(task)] + [[len(log) for log in logs]]
    found = []
    for before, after in pairwise(places):
        found += [
            (name, log[begin:end].decode())
            for name, log, begin, end in zip("oe", logs, before, after, strict=True)
            if end > begin
        ]
    # On a busy machine the end of a line may have a moment of its own.
    runs = groupby(found, key=itemgetter(0))
    return [(name, "".join(text for _, text in run)) for name, run in runs]


def test_text_of_both_streams_has_its_order_and_its_time(task):
    script = """
        import sys, logging, time
        print("one")
        logging.warning("two")
        print("three")
        sys.stderr.buffer.write(b"four\\n")
        sys.stdout.write("five\\n")
        time.sleep(0.2)
        print("six")
    """
    assert task.run(script, moments=True) == 0
    assert in_order(task) == [
        ("o", "one\n"), ("e", "WARNING:root:two\n"), ("o", "three\n"), ("e", "four\n"),
        ("o", "five\nsix\n"),
    ]  # fmt: skip
    times = [wall for wall, _, _ in noted(task)]
    assert times == sorted(times)
    *_, before, last = (wall for wall, out, _ in noted(task) if out <= len("one\nthree\nfive\n"))
    assert last - before >= 0.19  # of "six", which comes behind those three
    assert (task.folder / moments.FILE).stat().st_mode & 0o777 == 0o600


def test_the_streams_are_what_python_gives(task):
    script = """
        import io, os, sys
        for stream, other in ((sys.stdout, sys.__stdout__), (sys.stderr, sys.__stderr__)):
            assert stream is other
            assert type(stream) is io.TextIOWrapper
            told = stream.name, stream.mode, stream.encoding, stream.errors, stream.fileno()
            print(*told, stream.write_through, stream.line_buffering, stream.isatty())
        sys.stdout.reconfigure(errors="backslashreplace")
        print("\\ud800")
        if os.fork() == 0:
            print("of a child", flush=True)
            os._exit(0)
        os.wait()
    """
    plain = """
        import sys
        for stream in (sys.stdout, sys.stderr):
            told = stream.name, stream.mode, stream.encoding, stream.errors, stream.fileno()
            print(*told, stream.write_through, stream.line_buffering, stream.isatty())
    """
    assert task.run(script, moments=True) == 0, (task.folder / "stderr").read_text()
    told = (task.folder / "stdout").read_text().splitlines()
    assert told[2:] == ["\\ud800", "of a child"]
    (task.folder / "stdout").write_text("")
    assert task.run(plain) == 0
    assert (task.folder / "stdout").read_text().splitlines() == told[:2]


def test_a_job_that_turns_from_stream_to_stream_forever_fills_no_disk(task):
    script = """
        import gc, sys
        from submarine_runtime import moments
        [noting] = [one for one in gc.get_objects() if isinstance(one, moments.Moments)]
        for number in range(400):
            if number == 200:
                noting._left = 0
            print(number)
            print(number, file=sys.stderr)
        print("last")
    """
    assert task.run(script, moments=True) == 0
    found = noted(task)
    assert len(found) >= 400  # one more for each line that took long
    until = sum(len(f"{number}\n") for number in range(200))
    assert max(found[-1][1:]) <= until
    assert (task.folder / "stdout").read_text().endswith("last\n")


def test_a_log_without_a_place_to_note_it_in_is_written_all_the_same(task):
    (task.folder / moments.FILE).mkdir()
    assert task.run("print('text')", moments=True) == 0
    assert (task.folder / "stdout").read_text() == "text\n"
