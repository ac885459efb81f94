"""The same cells in a real kernel, as jobs on a real YARN cluster."""

from __future__ import annotations

import re
import secrets
import shutil
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs

from tests.hadoop import yarn_cluster
from tests.jobs import end_processes_of, until
from tests.kernels import TRAIN, Driven, start

PATIENCE = 200
"""Seconds: a busy machine starts an application slowly."""

PNG = "image/png"


class OnYarn(Driven):
    """A kernel whose jobs go to YARN."""

    def messages(self, sent, patience=PATIENCE):
        return super().messages(sent, patience)

    def run(self, code, metadata=None, patience=PATIENCE):
        return super().run(code, metadata, patience)

    def job(self, name):
        [job] = [job for job in list_jobs(Path(self.home)) if job.name == name]
        return job


@contextmanager
def driven(yarn, home, **settings):
    kernel = OnYarn(str(home), env={**yarn.environment, "SUBMARINE_GRACE": "120", **settings})
    kernel.run(f"%submarine use yarn\n{TRAIN}")
    yield kernel
    kernel.stop()
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another


@pytest.fixture(scope="module")
def kernel(yarn, tmp_path_factory):
    """One kernel for all tests of this file, so that one warm master serves them."""
    with driven(yarn, tmp_path_factory.mktemp("yarn-notebook")) as kernel:
        yield kernel


# That all comes on the other ways as well, `test_yarn_logs_channel.py` holds for one job each.
@pytest.fixture(
    params=["auto", *(pytest.param(way, marks=pytest.mark.long) for way in ("hdfs", "after"))]
)
def any_way(request, yarn, tmp_path):
    """A kernel for each way on which logs and results of containers come."""
    if request.param == "auto":
        yield request.getfixturevalue("kernel")
        return
    home = tmp_path / "home"
    home.mkdir()
    with driven(yarn, home, SUBMARINE_YARN_LOGS=request.param) as kernel:
        yield kernel


@pytest.fixture
def gate(tmp_path):
    """Return the file that a held job waits for; it is there in the end, whatever happens."""
    gate = tmp_path / "go"
    yield gate
    gate.touch()


@pytest.fixture
def held(kernel, gate):
    """Start a cell whose job goes on until a file is there; return it and the file."""

    def hold(name, gpus=1):
        cell = (
            f"%%submarine --gpus {gpus} --name {name}\nimport os, time\nprint('before', flush=True)"
            f"\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\nprint('after')\n7"
        )
        return *start(kernel, cell), gate

    return hold


def last_card(ran):
    cards = ran.of_type("display_data", "update_display_data")
    return next(card["data"] for card in reversed(cards) if "text/html" in card["data"])


def pages(kernel, name):
    """Return the web pages of a job, as another process of the user gets them."""
    conf = load_hadoop(kernel.environment)
    return yarn_cluster(Path(kernel.home), conf).links(kernel.job(name).id)


def application(pages):
    [found] = [name for name in pages if name.startswith("application_")]
    return found


def fetch(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - of our own cluster
        return answer.read().decode()


def test_what_takes_long_before_a_job_is_said_in_the_cell(kernel, tmp_path):
    archive = tmp_path / "environment.zip"
    archive.write_bytes(secrets.token_bytes(100_000))
    cell = f"%%submarine --detach --gpus 0 --name sent --environment {archive}\n1"
    ran = kernel.run(cell)
    assert "uploading environment.zip (0.1 MB)" in ran.stream("stderr")
    kernel.run("%submarine job kill sent")


def test_the_value_the_log_and_the_ledger_are_in_the_cell(kernel):
    ran = kernel.run("%%submarine --gpus 1 --name first\ntrain(2)")
    assert ran.stream("stdout") == "epoch 0\nepoch 1\n", ran
    assert ran.value == "{'epochs': 2}"
    card = last_card(ran)["text/plain"]
    assert "first: succeeded" in card
    assert "on yarn" in card
    assert re.search(r"GPU \S+, queued .*, starting .*, running .*, released .* after return", card)


def test_the_next_cell_goes_through_the_same_warm_master(kernel):
    cell = (
        "%%submarine --gpus {} --name {}\nimport os\nhistory = train(1)\n"
        "granted = os.environ['CUDA_VISIBLE_DEVICES'].split(',')"
    )
    served: list[str] = []
    # Between two cells a master is idle, and ends where another test's application waits for its
    # place: then the next two tell.
    while len(served) < 2 or (served[-2] != served[-1] and len(served) < 8):
        gpus = len(served) % 2 + 1  # whatever number of GPUs it asks for
        kernel.run(cell.format(gpus, name := f"cell-{len(served)}"))
        assert kernel.value("len(granted)") == str(gpus)
        served.append(application(pages(kernel, name)))
    assert served[-2] == served[-1], served
    assert kernel.value("history") == "{'epochs': 1}"


LEFT_BEHIND = """
%%submarine --gpus 1 --name left
import matplotlib.pyplot as plt
class Scale:
    by = 3
def scaled(values):
    return [value * Scale.by for value in values]
losses.append(0.5)
model["weights"] *= 2
model["steps"] = len(losses)
large = np.arange(500_000)
small = scaled(losses)
plt.plot(losses)
plt.show()
print("done")
"""


def test_what_the_cell_leaves_behind_is_there(any_way):
    any_way.run(
        "import numpy as np\nlosses, model = [1.0], {'weights': np.ones(3)}\n"
        "model['losses'] = losses\nweights, kept = model['weights'], losses"
    )
    ran = any_way.run(LEFT_BEHIND.lstrip())
    assert ran.reply["status"] == "ok", ran.text
    assert ran.stream("stdout") == "done\n"
    [figure] = [shown["data"] for shown in ran.of_type("display_data") if PNG in shown["data"]]
    assert figure[PNG].startswith("iVBOR")
    assert any_way.value("losses") == "[1.0, 0.5]"
    assert any_way.value("kept is losses is model['losses'], weights is model['weights']") == (
        "(True, True)"
    )
    assert any_way.value("weights.tolist(), model['steps']") == "([2.0, 2.0, 2.0], 2)"
    assert any_way.value("small, scaled([1]), int(large.sum()) == 499_999 * 250_000") == (
        "([3.0, 1.5], [3], True)"
    )
    [home] = JobPaths(Path(any_way.home), any_way.job("left").id).root.rglob("home.pkl")
    assert home.stat().st_size > 4_000_000
    assert home.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_a_file_that_the_cell_runs_travels_with_what_it_imports(kernel):
    folder = Path(kernel.cwd)
    (folder / "tools.py").write_text(
        "import sys\nfrom helpers import scale\nprint('tools', sys.argv[1:])\nrate = scale(2)\n"
    )
    (folder / "helpers.py").write_text("def scale(by):\n    return by / 4\n")
    ran = kernel.run("%%submarine --gpus 0\n%run tools.py fast\nrate *= 3")
    assert ran.stream("stdout") == "tools ['fast']\n", ran.text
    assert kernel.value("rate") == "1.5"


def test_an_error_is_raised_at_the_line_of_the_cell(kernel):
    ran = kernel.run("%%submarine --gpus 1\n\ndef fails():\n    return 1 / 0\n\nfails()")
    assert ran.reply["ename"] == "ZeroDivisionError"
    assert re.search(r"In\[\d+\], line 4, in fails\(\)", ran.error)
    assert re.search(r"In\[\d+\], line 6", ran.error)
    assert "submarine_" not in ran.error


def test_while_it_runs_the_log_is_the_containers_page(kernel, held):
    sent, come, gate = held("linked")
    # The kernel is busy with the cell: another process asks.
    linked = pages(kernel, "linked")
    assert "/node/containerlogs/container_" in linked["log"]
    assert "stdout" in fetch(linked["log"])
    assert application(linked) in fetch(linked[application(linked)])
    assert "cluster" in fetch(linked["ResourceManager"])
    assert fetch(linked["tracking"])
    gate.touch()
    ran = kernel.collect(sent, PATIENCE)
    ran.messages[:0] = come
    assert ran.stream("stdout") == "before\nafter\n"
    assert "127.0.0.1" not in str(last_card(ran))  # what is saved holds no such address
    after = pages(kernel, "linked")
    assert after["log"] == after[application(after)] == linked[application(linked)]
    assert "tracking" not in after


def test_a_job_that_waits_says_why_and_the_gpus_who_holds_them(kernel, gate):
    kernel.run(
        "from submarine_magics import submit\n"
        "def hold(gate):\n"
        "    import os, time\n"
        "    while not os.path.exists(gate):\n"
        "        time.sleep(0.02)\n"
        f"jobs = [submit(hold, {str(gate)!r}, gpus=4) for _ in range(2)]\n"
        "import time\n"
        "def reason():\n"
        "    return sorted(job.status().waiting_reason for job in jobs)[1]"
    )
    # Until one is placed, both are told that no GPU is in use yet.
    kernel.run("while 'queue default: 4/4 GPUs in use' not in reason():\n    time.sleep(0.1)")
    kernel.run("while jobs[0].running() == jobs[1].running():\n    time.sleep(0.1)")
    gpus = kernel.run("%submarine gpus").value
    holder = kernel.value("next(job for job in jobs if job.running()).id").strip("'")
    assert gpus.count(holder) == 4
    assert re.search(r"queue +default +0 +4", gpus)
    assert re.search(r"node +\S+ +0 +4", gpus)
    gate.touch()
    assert kernel.value("[job.result() for job in jobs]") == "[None, None]"


def test_lines_of_several_tasks_say_whose_they_are(kernel):
    options = "--gpus 1 --num_workers 2 --name team --logs all"
    ran = kernel.run(f"%%submarine {options}\nprint('here')")
    lines = re.sub(r"\x1b\[\d+m", "", ran.stream("stdout")).splitlines()
    assert sorted(lines) == ["worker-0 | here", "worker-1 | here"], ran
    assert "worker-1 on " in last_card(ran)["text/plain"]


def test_an_interrupt_cancels_and_the_gpus_are_free(kernel, held):
    sent, _, _ = held("stopped")
    kernel.manager.interrupt_kernel()
    ran = kernel.collect(sent, PATIENCE)
    assert ran.reply["ename"] == "JobCancelledError"
    until(lambda: kernel.job("stopped").state is JobState.CANCELLED)  # its summary comes last
    # The scheduler gives a node its GPU back a moment after it has let go of the container.
    until(lambda: kernel.run("%submarine gpus").value.count(" free") == 4)
    assert kernel.value("1 + 1") == "2"


def test_a_job_outlives_the_restart_of_its_kernel(kernel, held):
    _, _, gate = held("patient")
    kernel.restart()
    assert not kernel.job("patient").state.final
    sent, come = start(kernel, "%submarine job attach patient")
    gate.touch()
    ran = kernel.collect(sent, PATIENCE)
    ran.messages[:0] = come
    assert ran.stream("stdout") == "before\nafter\n"
    assert ran.value == "7"
    assert "patient: succeeded" in last_card(ran)["text/plain"]
