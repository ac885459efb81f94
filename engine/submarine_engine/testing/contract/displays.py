"""Displays: each in its place between the text, live, and again for whoever reads later."""

from __future__ import annotations

from submarine_engine import Cursor, Display, LogChunk
from submarine_engine.testing.jobs import until

SHOW = """
import os, sys, time
from IPython.display import HTML, display
for epoch in range(3):
    print("epoch", epoch)
    print("loss", epoch, file=sys.stderr)
    display(HTML(f"<b>{epoch}</b>"), metadata={"epoch": epoch})
print("wait")
while not os.path.exists(GATE): time.sleep(0.02)
display({"image/png": "x" * 3_000_000}, raw=True)
print("done")
"""


def test_displays_come_while_the_job_runs_and_in_order_for_a_later_reader(cluster):
    gate = cluster.folder / "shown"
    job = cluster.submit(SHOW.replace("GATE", repr(str(gate))))
    cursor, found, texts = Cursor(), [], {"stdout": 0, "stderr": 0}

    def look():
        nonlocal cursor
        batch = cluster.seam.read(job.id, cursor)
        for item in batch.items:
            if isinstance(item, LogChunk):
                texts[item.stream] += len(item.data)
            elif isinstance(item, Display):
                found.append(item)
                assert texts["stdout"] >= item.stdout
                assert texts["stderr"] >= item.stderr
        cursor = batch.cursor
        return batch

    until(lambda: look() and len(found) == 3, 180)
    gate.touch()
    until(lambda: look().ended, 180)
    assert [item.data.get("text/html") for item in found[:3]] == [
        "<b>0</b>",
        "<b>1</b>",
        "<b>2</b>",
    ]
    assert [item.metadata for item in found] == [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}, {}]
    assert len(found[3].data["image/png"]) == 3_000_000

    told, cursor = [], Cursor()
    while not (batch := look_again(cluster, job, cursor, told)).ended:
        cursor = batch.cursor
    text = "epoch {0}\n", "loss {0}\n", "<b>{0}</b>"
    expected = [piece.format(epoch) for epoch in range(3) for piece in text]
    assert told == [*expected, "wait\n", "picture", "done\n"]


def look_again(cluster, job, cursor, told):
    batch = cluster.seam.read(job.id, cursor)
    for item in batch.items:
        if isinstance(item, LogChunk):
            told.append(item.data.decode())
        elif isinstance(item, Display):
            told.append(item.data.get("text/html", "picture"))
    return batch
