"""``input()`` and ``getpass()`` in a job are asked at the cell that waits for it."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.future import Job
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs

from tests.kernel.test_interrupts_and_restarts import until
from tests.kernels import PATIENCE

ASKING = """
import getpass
print("before", end=" ")
name = input("Name: ")
secret = getpass.getpass("Secret: ")
print("hello", name, len(secret))
"""
WAITING = """%%submarine --gpus 1 --name asks
try:
    input("Go on? ")
except EOFError as error:
    print("no answer:", error)
"""


def asked(kernel):
    """Return the next question that the kernel asks."""
    return kernel.client.get_stdin_msg(timeout=PATIENCE)["content"]


def answered(kernel, cell, *answers):
    """Run a cell that asks, and answer it; return the questions and what it sent."""
    sent = kernel.send(cell, allow_stdin=True)
    questions = []
    for answer in answers:
        questions.append(asked(kernel))
        kernel.client.input(answer)
    return questions, kernel.collect(sent)


def the_job(kernel):
    [job] = list_jobs(Path(kernel.home))
    return Job(LocalCluster(Path(kernel.home)), job.id)


def log(job):
    folder = LocalCluster(job.cluster.home).results(job.id)
    return (folder / "stdout").read_text()


def held_bytes(home):
    found = b""
    for path in Path(home).rglob("*"):
        with suppress(FileNotFoundError):  # gone meanwhile: the kernel's history has a journal
            found += path.read_bytes() if path.is_file() else b""
    return found


def test_each_of_several_tasks_asks_by_its_name(own_kernel):
    cell = """%%submarine --gpus 0 --num_workers 2 --logs all
from submarine_runtime import job
print(f"rank {job.rank} got", input("Name: "))"""
    sent = own_kernel.send(cell, allow_stdin=True)
    prompts = []
    for _ in range(2):
        prompts.append(asked(own_kernel)["prompt"])
        own_kernel.client.input(prompts[-1][:8].upper())
    text = own_kernel.collect(sent).stream("stdout")
    assert sorted(prompts) == ["worker-0 | Name: ", "worker-1 | Name: "]
    for rank in range(2):
        assert f"rank {rank} got WORKER-{rank}" in text


def test_a_cell_asks_as_a_plain_one_does_and_its_log_has_the_question(own_kernel):
    questions, ran = answered(
        own_kernel, f"%%submarine --gpus 0 -o name\n{ASKING}", "Zoë", "s3cret-word"
    )
    assert own_kernel.value("name") == "'Zoë'"
    # After the job: a question is lost as long as the channel for it is not connected.
    plain = answered(own_kernel, ASKING, "Zoë", "s3cret-word")
    assert questions == plain[0]
    assert [question["password"] for question in questions] == [False, True]
    # The front end shows question and answer itself: the cell's own text has neither.
    assert ran.stream("stdout") == plain[1].stream("stdout") == "before hello Zoë 11\n"
    job = the_job(own_kernel)
    assert log(job) == "before Name: Zoë\nSecret: \nhello Zoë 11\n"
    # Whoever follows it now is asked nothing, and reads what there was to answer.
    again = own_kernel.run(f"%submarine job attach {job.id}")
    assert again.stream("stdout") == log(job)
    assert own_kernel.run(f"%submarine job logs {job.id}").stream("stdout") == log(job)
    assert b"s3cret-word" not in held_bytes(own_kernel.home)


def test_functions_of_other_cells_and_launch_ask_too(kernel):
    kernel.run("def ask(what):\n    return input(what) * 2")
    questions, ran = answered(kernel, "%%submarine --gpus 0\nask('a? ')", "x")
    assert ([question["prompt"] for question in questions], ran.value) == (["a? "], "'xx'")
    launched = "from submarine_engine import launch\nlaunch(ask, 'b? ', gpus=0)"
    questions, ran = answered(kernel, launched, "y")
    assert ([question["prompt"] for question in questions], ran.value) == (["b? "], "'yy'")


def test_the_end_of_the_input_is_an_end_of_file_in_the_job(kernel):
    _, ran = answered(kernel, WAITING, "\x04")
    assert "no answer: the input was ended" in ran.text


@pytest.mark.parametrize(
    "cell",
    [
        "%%submarine --gpus 0\nbreakpoint()",
        "%%submarine --gpus 0 --detach\ninput()",
        "%%submarine --gpus 0 --cluster yarn\ninput()",
    ],
)
def test_what_cannot_be_asked_is_refused_before_the_job(kernel, cell):
    before = len(list_jobs(Path(kernel.home)))
    ran = kernel.collect(kernel.send(cell, allow_stdin=True))
    assert "line 2: `" in ran.error
    assert "asks a person" in ran.error
    assert len(list_jobs(Path(kernel.home))) == before


def test_an_interrupt_at_a_question_cancels_the_job(own_kernel):
    sent = own_kernel.send(WAITING, allow_stdin=True)
    assert asked(own_kernel)["prompt"] == "Go on? "
    own_kernel.manager.interrupt_kernel()
    ran = own_kernel.collect(sent)
    assert ran.reply["ename"] == "JobCancelledError"
    assert "no answer" not in log(the_job(own_kernel))
    assert own_kernel.value("1 + 1") == "2"


@pytest.mark.parametrize("end", ["cancel", "kill"])
def test_a_job_that_ends_from_elsewhere_ends_its_question(own_kernel, end):
    sent = own_kernel.send(WAITING, allow_stdin=True)
    asked(own_kernel)
    job = the_job(own_kernel)
    getattr(job, end)()
    ran = own_kernel.collect(sent)
    assert ran.reply["status"] == "error"
    assert job.status().state is JobState.CANCELLED
    # The kernel is as it was, with its own questions too.
    questions, plain = answered(own_kernel, "input('mine? ')", "yes")
    assert (questions[0]["prompt"], plain.value) == ("mine? ", "'yes'")


def test_the_end_of_the_kernel_is_an_end_of_file_in_the_job(own_kernel):
    own_kernel.send(WAITING, allow_stdin=True)
    asked(own_kernel)
    job = the_job(own_kernel)
    own_kernel.manager.signal_kernel(signal.SIGKILL)
    until(job.done)
    assert "no answer: the job asks, and nobody is there" in log(job)
