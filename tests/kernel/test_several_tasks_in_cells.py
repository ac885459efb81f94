"""Cells that run as several tasks, in a real kernel: what is shown, raised and brought home."""

from __future__ import annotations

import json
import re

LOST = """%%submarine --num_workers 4 --gpus 0 --name lost
import os, socket, time
from submarine_runtime import job

class OddBatchError(ValueError):
    pass

address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if job.rank == 0:
    print("rank 0 is here")
    with socket.create_server(("", address[1])) as server:
        for connection in [server.accept()[0] for _ in range(3)]:
            while data := connection.recv(10):
                pass
            # Who lost another waits a moment for who says why, and a busy machine is slower.
            said = os.path.dirname(os.environ["SUBMARINE_TASK_DIR"]) + "/worker-2/outcome.json"
            while not os.path.exists(said):
                time.sleep(0.01)
            raise ConnectionResetError("rank 0 has lost another")
while True:
    try:
        connection = socket.create_connection(address)
        break
    except ConnectionRefusedError:
        pass
if job.rank == 2:
    try:
        raise OddBatchError("rank 2 says why")
    finally:
        connection.close()
        time.sleep(0.1)
connection.recv(10)
raise ConnectionResetError("rank 0 is gone")
"""


def test_the_cell_raises_what_the_first_to_fail_raised(kernel):
    ran = kernel.run(LOST)
    text = ran.error
    assert "OddBatchError: rank 2 says why" in text
    line = LOST[: LOST.index("raise OddBatchError")].count("\n") + 1
    assert re.search(rf"In\[\d+\], line {line}\b", text)
    assert "the first to fail was worker-2 on " in text
    assert ran.stream("stdout") == "rank 0 is here\n"
    # It is of the class that the cell itself has defined, with what the exception held.
    found = "isinstance(sys.last_value, OddBatchError), sys.last_value.args"
    assert kernel.value(f"import sys; {found}") == "(True, ('rank 2 says why',))"
    [card] = [
        content["data"]["text/plain"]
        for content in ran.of_type("display_data", "update_display_data")[-1:]
    ]
    assert "lost: failed" in card
    assert "worker-2 on" in card


BAD = """
class OddError(ValueError):
    def __init__(self, *both):
        super().__init__(*both)
        self.both = both

def bad():
    from submarine_runtime import job
    if job.rank == 1:
        raise OddError(1, "two")
    import time
    time.sleep(600)

from submarine_engine import launch, open_job, submit
"""


def test_the_error_is_the_same_wherever_one_asks_for_it(kernel):
    kernel.run(BAD)
    seen = "import sys; isinstance(sys.last_value, OddError), repr(sys.last_value), "
    seen += "sys.last_value.both"
    same = "(True, \"OddError(1, 'two')\", (1, 'two'))"
    for cell in (
        "%%submarine --num_workers 2 --gpus 0 --name odd\nbad()",
        "open_job('odd').result()",
        "launch(bad, workers=2, gpus=0)",
        "given = submit(bad, workers=2, gpus=0)\ngiven.result()",
        "raise given.exception()",
    ):
        assert "OddError: (1, 'two')" in kernel.run(cell).error
        assert kernel.value(seen) == same
    assert kernel.value("given.exception() is sys.last_value") == "True"


def test_what_a_cell_changed_stays_as_it_is_where_only_its_error_is_asked_for(kernel):
    kernel.run("import os\nhere = [1]")
    kernel.run(
        "%%submarine --gpus 0 --name changes --detach\n"
        "here.append(2)\nos.environ['SEEN'] = 'x'\nraise ValueError(here)"
    )
    assert kernel.value("from submarine_engine import open_job; open_job('changes').exception()")
    assert kernel.value("here, 'SEEN' in os.environ") == "([1], False)"
    assert kernel.value("open_job('changes').exception().args") == "([1, 2],)"


def test_rank_0_comes_home_and_the_others_values_can_be_had(kernel):
    ran = kernel.run(
        "%%submarine --num_workers 2 --name values\n"
        "from submarine_runtime import job\nmine = [job.rank] * 3\nmine"
    )
    assert ran.value == "[0, 0, 0]"
    assert kernel.value("mine") == "[0, 0, 0]"
    told = kernel.value(
        "import json; from submarine_engine import open_job; "
        "json.dumps(dict(open_job('values').results().by_task))"
    )
    assert json.loads(told.strip("'")) == {"worker-0": [0, 0, 0], "worker-1": [1, 1, 1]}


def test_the_logs_of_all_are_shown_when_asked_for_each_in_its_colour(kernel):
    ran = kernel.run("%%submarine --num_workers 2 --logs all\nprint('here')")
    lines = sorted(ran.stream("stdout").splitlines())
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in lines] == [
        "worker-1 | here", "worker-0 | here",
    ]  # fmt: skip
    assert len({line[:5] for line in lines}) == 2


def test_a_task_that_there_is_not_is_refused_before_anything_is_asked_for(kernel):
    ran = kernel.run("%%submarine --num_workers 2 --logs worker-2\nprint('here')")
    assert "the job has no task 'worker-2'" in ran.error
    assert "say one of first, all, worker-0, worker-1" in ran.error
    assert not ran.of_type("display_data")


def test_what_each_of_several_shows_stands_below_its_name(kernel):
    ran = kernel.run(
        "%%submarine --num_workers 2 --gpus 0 --logs all\n"
        "from IPython.display import HTML, display\nfrom submarine_runtime import job\n"
        "display(HTML(f'<b>drawn by {job.rank}</b>'))"
    )
    seen = []
    for message in ran.messages:
        content = message["content"]
        if message["msg_type"] == "stream":
            seen += re.findall(r"worker-(\d) \| ", content["text"])
        elif found := re.search(r"drawn by (\d)", str(content.get("data", {}).get("text/html"))):
            seen.append(found[1])
    assert sorted([seen[:2], seen[2:]]) == [["0", "0"], ["1", "1"]]


def test_a_bar_of_each_of_several_tasks_stands_after_its_name(kernel):
    ran = kernel.run(
        "%%submarine --num_workers 2 --gpus 0 --logs all\n"
        "from tqdm.auto import tqdm\nfor _ in tqdm(range(3)): pass"
    )
    shown = re.findall(r"worker-(\d) \| (?:\x1b\[0m)?100%", ran.text)
    assert sorted(shown) == ["0", "1"]
