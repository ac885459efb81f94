"""What becomes of a job when its cell is interrupted, and when its kernel is gone."""

import os
import shutil
import signal
import time
from pathlib import Path

from submarine_engine.clusters.local import LocalCluster
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs

from tests.kernels import start

LONG = """%%submarine --gpus 2 --name long
import time
print("started", flush=True)
for step in range(6000):
    time.sleep(0.1)
"""
# Goes on until a file is there, so that a test says when.
UNTIL_TOLD = """%%submarine --gpus 1 --name patient
import pathlib, time
print("before", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("after", flush=True)
"the value"
"""
STUBBORN = """%%submarine --gpus 1 --name stubborn
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", flush=True)
for step in range(6000):
    time.sleep(0.1)
"""


def until(condition, patience=180):
    limit = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < limit, condition
        time.sleep(0.02)


def the_job(kernel):
    [job] = list_jobs(Path(kernel.home))
    return job


def free(kernel):
    gpus = LocalCluster(Path(kernel.home)).gpus()
    return len(gpus) == 2 and all(gpu.job_id is None for gpu in gpus)


def test_an_interrupt_cancels_the_job_and_its_gpus_are_free(own_kernel, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    sent, _ = start(own_kernel, LONG)
    own_kernel.manager.interrupt_kernel()
    ran = own_kernel.collect(sent)
    assert ran.reply["status"] == "error"
    assert ran.reply["ename"] == "JobCancelledError"
    assert "cancelled" in ran.error
    assert "submarine_" not in ran.error
    assert "KeyboardInterrupt" not in ran.text
    until(lambda: the_job(own_kernel).state is JobState.CANCELLED)
    assert free(own_kernel)
    cards = ran.of_type("display_data", "update_display_data")
    assert "long: cancelled" in cards[-1]["data"]["text/plain"]
    # The kernel is as it was: it takes the next cell, and the next interrupt.
    assert own_kernel.value("1 + 1") == "2"
    # From a thread: an interrupt in the middle of a print can be lost in the kernel's own code.
    sent = own_kernel.send(
        "import threading, time\nthreading.Timer(1, print, ['here']).start()\ntime.sleep(600)"
    )
    next(m for m in own_kernel.messages(sent) if m["msg_type"] == "stream")
    own_kernel.manager.interrupt_kernel()
    assert own_kernel.collect(sent).reply["ename"] == "KeyboardInterrupt"


def test_a_second_interrupt_leaves_at_once_and_the_job_ends_by_itself(driven):
    kernel = driven(env={"SUBMARINE_GRACE": "600"})
    sent, _ = start(kernel, STUBBORN)
    kernel.manager.interrupt_kernel()
    for message in kernel.messages(sent):
        if message["msg_type"] == "stream" and "cancelling" in message["content"]["text"]:
            break
    kernel.manager.interrupt_kernel()
    ran = kernel.collect(sent)
    assert ran.reply["ename"] == "JobCancelledError"
    assert "job attach" in ran.error
    assert not the_job(kernel).state.final
    kernel.run("%submarine job kill stubborn")
    kernel.run("%submarine job wait stubborn --timeout 60")
    until(lambda: the_job(kernel).state is JobState.CANCELLED)


def test_attach_leaves_at_an_interrupt_and_the_job_goes_on(own_kernel):
    own_kernel.run(UNTIL_TOLD.replace("%%submarine", "%%submarine --detach"))
    sent, _ = start(own_kernel, "%submarine job attach patient")
    own_kernel.manager.interrupt_kernel()
    ran = own_kernel.collect(sent)
    assert ran.reply["status"] == "ok"
    assert "goes on" in ran.stream("stderr")
    assert not the_job(own_kernel).state.final
    Path(own_kernel.cwd, "go").touch()
    assert own_kernel.run("%submarine job attach patient").value == "'the value'"


def test_a_job_outlives_its_kernels_restart(own_kernel):
    start(own_kernel, UNTIL_TOLD)
    own_kernel.restart()
    assert not the_job(own_kernel).state.final
    sent, come = start(own_kernel, "%submarine job attach patient")
    Path(own_kernel.cwd, "go").touch()
    ran = own_kernel.collect(sent)
    ran.messages[:0] = come
    assert ran.stream("stdout") == "before\nafter\n"
    assert ran.value == "'the value'"


def test_a_job_outlives_its_kernel_killed_with_9(own_kernel, driven):
    start(own_kernel, UNTIL_TOLD)
    os.kill(own_kernel.manager.provisioner.pid, signal.SIGKILL)
    Path(own_kernel.cwd, "go").touch()
    until(lambda: the_job(own_kernel).state is JobState.SUCCEEDED)
    another = driven()
    ran = another.run("%submarine job attach patient")
    assert ran.stream("stdout") == "before\nafter\n"
    assert ran.value == "'the value'"


def test_a_job_folder_deleted_while_running_is_an_error_in_words(own_kernel):
    sent, _ = start(own_kernel, LONG)
    job = the_job(own_kernel)
    folder = Path(own_kernel.home, "jobs", job.id)
    while folder.exists():  # the job goes on writing there, and removing
        shutil.rmtree(folder, ignore_errors=True)
    ran = own_kernel.collect(sent)
    assert ran.reply["status"] == "error"
    assert job.id in ran.error
    assert "submarine_" not in ran.error
