"""What an application is sent with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.yarn.application import (
    describe_application,
    heartbeat_jar,
    shape_key,
)
from submarine_engine.clusters.yarn.hadoop import HadoopConf

from tests.jobs import spec_of, until

TASK = f"""\
#!{sys.executable}
import signal, time
from pathlib import Path
def handle(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGTERM, handle)
try:
    Path("begun").touch()
    time.sleep(600)
except KeyboardInterrupt:
    Path("asked").touch()
    while not Path("go").exists():
        time.sleep(0.02)
"""


def test_applications_that_start_at_once_share_one_jar(tmp_path):
    site = "<configuration><property><name>a</name><value>b</value></property></configuration>"
    (tmp_path / "yarn-site.xml").write_text(site)
    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        folder = SimpleNamespace(root=root, conf=HadoopConf(tmp_path, {}, "f"))
        with ThreadPoolExecutor(8) as pool:
            [jar] = set(pool.map(heartbeat_jar, [folder] * 8))
        assert list(root.iterdir()) == [jar]
        with zipfile.ZipFile(jar) as packed:
            ours = packed.read("yarn-site.xml").decode()
        assert ours.startswith("<configuration><property><name>a</name>")
        assert "yarn.am.liveness-monitor.expiry-interval-ms" in ours


def test_one_master_serves_the_usual_numbers_of_gpus():
    key = {gpus: shape_key(spec_of(gpus=gpus), "e") for gpus in (0, 1, 2, 3, 4, 8)}
    assert key[1] == key[2] == key[4] == key[8]
    assert len({key[0], key[1], key[3]}) == 3
    assert shape_key(spec_of(gpus=1, memory=99), "e") != key[1]
    assert shape_key(spec_of(gpus=1, queue="q"), "e") != key[1]


def write_script(folder, task):
    """Write what YARN starts a container by, with a program in place of Python; return its words.

    Returns
    -------
    tuple
        Command and environment, as skein and YARN have them.
    """
    (folder / "yarn-site.xml").write_text("<configuration></configuration>")
    program = folder / "task"
    program.write_text(task)
    program.chmod(0o700)
    conf = HadoopConf(folder, {}, "f")
    told = SimpleNamespace(root=folder, sealing_key=folder / "submarine.key", conf=conf)
    launch = {"python": str(program), "archives": {}, "probed": False}
    made = describe_application(spec_of(), told, launch, job_id="job", environments={"worker": {}})
    service = made.services["worker"]
    (folder / ".skein.sh").write_text(service.script)
    command = ["/bin/bash", "-c", "bash .skein.sh >skein.log 2>&1"]
    return command, {**os.environ, **service.env, "LOG_DIRS": str(folder)}


# A shell that pauses where a signal has just ended its wait, for as long as the task still takes.
PAUSES = "while kill -0 $task; do sleep 0.02; done; "


@pytest.mark.parametrize("pause", ["", PAUSES], ids=["", "slow"])
def test_a_container_is_not_over_before_its_task(tmp_path, pause):
    command, environment = write_script(tmp_path, TASK)
    script = tmp_path / ".skein.sh"
    before, found, after = script.read_text().partition("kill -0 $task")
    script.write_text(before + pause + found + after)
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, start_new_session=True
    ) as container:
        try:
            until((tmp_path / "begun").exists)
            os.killpg(container.pid, signal.SIGTERM)
            until((tmp_path / "asked").exists)
            assert container.poll() is None
        finally:
            (tmp_path / "go").touch()
        assert container.wait(180) == 0
    assert (tmp_path / "exit").read_text() == "0\n"


KILLED = """\
#!/bin/bash
until [ -e go ]; do sleep 0.02; done
kill -9 $$
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("nr_free_pages 9\noom_kill 3\n", "nr_free_pages 1\noom_kill 4\n", "137 oom\n"),
        ("nr_free_pages 9\noom_kill 3\n", "nr_free_pages 1\noom_kill 3\n", "137\n"),
        ("nr_free_pages 9\n", "nr_free_pages 1\n", "137\n"),  # an old kernel
        (None, None, "137\n"),
    ],
)
def test_a_container_tells_that_the_kernel_had_no_memory_left(tmp_path, before, after, said):
    command, environment = write_script(tmp_path, KILLED)
    script, counters = tmp_path / ".skein.sh", tmp_path / "vmstat"
    script.write_text(script.read_text().replace("/proc/vmstat", str(counters)))
    if before is not None:
        # Read when it was looked at: then the task goes on.
        os.mkfifo(counters)
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as container:
        if before is not None:
            counters.write_text(before)
            counters.unlink()
            counters.write_text(after)
        (tmp_path / "go").touch()
        assert container.wait(180) == 137
    assert (tmp_path / "exit").read_text() == said
