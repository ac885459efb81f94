"""Cells in a real kernel as jobs on a cluster that asks for Kerberos: a ticket is all they need."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from submarine_engine import Job, kerberos
from submarine_engine.clusters.saving import NOTE
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.rest import new_session
from submarine_engine.history import JobPaths

from tests.hadoop import use, yarn_cluster
from tests.jobs import end_processes_of, until
from tests.kernels import TRAIN, start
from tests.yarn.test_yarn_notebook import PNG, OnYarn, last_card

from .users import kinit

pytestmark = pytest.mark.long

PATIENCE = 400


class OfUser(OnYarn):
    """A kernel of one of the cluster's users, and the tickets that it finds."""

    def __init__(self, yarn, user, folder):
        self.yarn, self.user, self.tickets = yarn, user, folder / "tickets"
        self.kinit()
        home = folder / "home"
        home.mkdir()
        own = {"KRB5CCNAME": f"FILE:{self.tickets}", "SUBMARINE_YARN_IDLE": "120"}
        super().__init__(str(home), env={**yarn.environment, **own})
        self.run(f"%submarine use yarn\n{TRAIN}")

    def kinit(self, *options):
        kinit(self.yarn, self.tickets, self.user, *options)

    def run(self, code, metadata=None, patience=PATIENCE):
        return super().run(code, metadata, patience)

    def jobs(self):
        return sorted(path.name for path in Path(self.home, "jobs").glob("*"))


@pytest.fixture(scope="module", params=["owner", "alice"])
def kernel(request, secure_yarn, tmp_path_factory):
    """Give the kernel of whom the containers run as, and that of another user.

    Nodes show logs to the first one alone; those of the other come by HDFS.
    """
    with pytest.MonkeyPatch.context() as patch:
        use(secure_yarn, patch)
        user = load_hadoop().user if request.param == "owner" else request.param
        folder = tmp_path_factory.mktemp(f"secure-{user}")
        kernel = OfUser(secure_yarn, user, folder)
        patch.setenv("KRB5CCNAME", f"FILE:{kernel.tickets}")
        patch.setenv("SUBMARINE_HOME", kernel.home)
        kernel.kind = request.param
        yield kernel
        kernel.stop()
        shutil.rmtree(kernel.home, ignore_errors=True)
        end_processes_of(Path(kernel.home), patience=3)


@pytest.fixture(autouse=True)
def of_the_kernel(kernel, monkeypatch):
    """Let the test's own process be who the kernel is."""
    use(kernel.yarn, monkeypatch)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kernel.tickets}")
    monkeypatch.setenv("SUBMARINE_HOME", kernel.home)


CELL = """
%%submarine --gpus 1 --name first
import matplotlib.pyplot as plt
history = train(2)
losses.append(0.5)
model["weights"] *= 2
plt.plot(losses)
plt.show()
history
"""


def test_value_change_picture_log_and_ledger_are_in_the_cell(kernel):
    kernel.run("import numpy as np\nlosses, model = [1.0], {'weights': np.ones(3)}\nkept = losses")
    ran = kernel.run(CELL.lstrip())
    assert ran.reply["status"] == "ok", ran.text
    assert ran.stream("stdout") == "epoch 0\nepoch 1\n"
    assert ran.value == "{'epochs': 2}"
    [picture] = [shown["data"] for shown in ran.of_type("display_data") if PNG in shown["data"]]
    assert picture[PNG].startswith("iVBOR")
    assert kernel.value("losses, kept is losses, model['weights'].tolist()") == (
        "([1.0, 0.5], True, [2.0, 2.0, 2.0])"
    )
    card = last_card(ran)["text/plain"]
    assert "first: succeeded" in card
    assert "on yarn" in card
    assert re.search(r"GPU \S+, queued .*, starting .*, running .*, released .* after return", card)


def test_an_error_is_raised_at_the_line_of_the_cell(kernel):
    ran = kernel.run("%%submarine --gpus 0 --name wrong\nrate = 3\n1 / (rate - 3)")
    assert ran.reply["ename"] == "ZeroDivisionError"
    assert re.search(r"In\[\d+\], line 3", ran.error)
    assert "rate = 3" in kernel.run("%submarine debug wrong").text  # its frames, opened here


def test_a_running_job_s_log_page_opens_by_a_ticket_and_so_does_the_job(kernel, tmp_path):
    gate = tmp_path / "gate"
    sent, come = start(
        kernel,
        "%%submarine --gpus 1 --name linked\nimport os, time\nprint('before')\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\nprint('after')",
    )
    try:
        cluster, job = yarn_cluster(), kernel.job("linked").id
        link = until(lambda: cluster.links(job).get("log"))
        assert link.startswith("https://localhost:")
        assert "/node/containerlogs/container_" in link
        session = new_session(load_hadoop())
        told = Job(cluster, job).exec(["sh", "-c", "echo $SUBMARINE_JOB_ID"])
        assert told.stdout.decode().strip() == job
        page = session.get(f"{link.rstrip('/')}/stdout/?start=0", timeout=60)
        assert "before" in page.text or kernel.kind != "owner", page.text
        session.auth = None
        assert session.get(link, timeout=60).status_code == 401
    finally:
        gate.touch()
    ran = kernel.collect(sent, PATIENCE)
    ran.messages[:0] = come
    assert ran.stream("stdout") == "before\nafter\n"
    assert "https://localhost" not in str(last_card(ran))  # what is saved holds no such address


def test_a_gang_of_two_begins_together(kernel):
    cell = (
        "%%submarine --gpus 1 --num_workers 2 --name team --logs all\n"
        "import os\nprint(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
    )
    ran = kernel.run(cell)
    lines = re.sub(r"\x1b\[\d+m", "", ran.stream("stdout")).splitlines()
    assert sorted(lines) == ["worker-0 | 0 of 2", "worker-1 | 1 of 2"], ran


SAVES = """
%%submarine --gpus 0 --name saved --checkpoint_path hdfs:///user/{user}/models/kept
import os, time
from submarine_runtime import job, on_save
weights = {{"seen": 0}}
on_save(lambda folder: (folder / "weights").write_text("1 2 3"))
for step in job.steps(5, weights, every=0):
    weights["seen"] += 1
    if step == 3:
        print("trained")
        break
while not os.path.exists({gate!r}):
    time.sleep(0.02)
"""


def test_models_are_saved_to_hdfs(kernel, tmp_path):
    models, gate = f"/user/{kernel.user}/models", tmp_path / "gate"
    sent, _ = start(kernel, SAVES.lstrip().format(user=kernel.user, gate=str(gate)))
    with closing(open_hdfs(load_hadoop())) as hdfs:
        try:
            job = Job(yarn_cluster(), kernel.job("saved").id)
            until((JobPaths(Path(kernel.home), job.id).task("worker-0").root / NOTE).exists)
            job.save(f"hdfs://{models}/now")
            assert hdfs.get(f"{models}/now/weights") == b"1 2 3"
            assert hdfs.list(f"{models}/kept")
        finally:
            gate.touch()
        assert kernel.collect(sent, PATIENCE).reply["status"] == "ok"


TENSORBOARD = """
%%submarine --gpus 0 --name board --tensorboard
import os, time
from tensorboard.summary import Writer
writer = Writer(os.environ["SUBMARINE_LOGDIR"])
writer.add_scalar("loss", 0.5, 7)
writer.flush()
print("written")
while not os.path.exists({gate!r}):
    time.sleep(0.02)
writer.close()
"""


def test_tensorboard_is_on_the_application_s_pages_for_who_has_a_ticket(kernel, tmp_path):
    gate = tmp_path / "gate"
    sent, _ = start(kernel, TENSORBOARD.lstrip().format(gate=str(gate)))
    try:
        cluster, job = yarn_cluster(), kernel.job("board").id
        if kernel.kind != "owner":  # nodes' logs tell where it listens, and are the owner's alone
            assert "TensorBoard" not in cluster.links(job)
            return
        page = until(lambda: cluster.links(job).get("TensorBoard"))
        assert page.startswith("https://localhost:")
        session = new_session(load_hadoop())

        def scalars():
            asked = {"run": "worker-0", "tag": "loss"}
            answer = session.get(f"{page}data/plugin/scalars/scalars", params=asked, timeout=60)
            kind = answer.headers.get("Content-Type", "")
            return answer.json() if answer.ok and kind.startswith("application/json") else None

        assert [point[1:] for point in until(scalars)] == [[7, 0.5]]
        session.auth = None
        assert session.get(page, timeout=60).status_code == 401
    finally:
        gate.touch()
        assert kernel.collect(sent, PATIENCE).reply["status"] == "ok"


@pytest.mark.parametrize("wrong", ["none", "expired"])
def test_a_cell_without_a_ticket_says_what_to_run_and_goes_on_after_it(kernel, wrong):
    before = kernel.jobs()
    if wrong == "none":
        kernel.tickets.unlink()
    else:
        kernel.kinit("-l", "1s")
        until(lambda: kerberos.ticket_problem() is not None)
    cell = "%%submarine --gpus 0 --name again\ntrain(1)"
    told = {"none": "there is no Kerberos ticket", "expired": "Kerberos ticket has expired"}[wrong]
    try:
        ran = kernel.run(cell)
        assert ran.reply["status"] == "error", ran.text
        assert told in ran.error
        assert "kinit" in ran.error
        assert kernel.jobs() == before
    finally:
        kernel.kinit()
    ran = kernel.run(cell)
    assert ran.value == "{'epochs': 1}", ran.text
