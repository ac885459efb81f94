"""The cluster of the tests is a real one, and Hadoop's own commands find it."""

from __future__ import annotations

import subprocess

import pytest


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hadoops_own_commands_find_it(on_yarn):
    nodes = run("yarn", "node", "-list")
    assert "Total Nodes:1" in nodes
    assert "RUNNING" in nodes
    assert "/user" in run("hdfs", "dfs", "-ls", "/")
    entries = run("yarn", "classpath", "--glob").strip().split(":")
    assert entries[0] == str(on_yarn.conf)
    assert len([entry for entry in entries if entry.endswith(".jar")]) > 100


@pytest.mark.long
def test_a_killed_daemon_comes_back(yarn_of_its_own):
    for name in ("nodemanager-0", "resourcemanager"):
        daemon = yarn_of_its_own.daemon(name)
        before = daemon.pid
        daemon.kill()
        assert daemon.pid is None
        daemon.start()
        yarn_of_its_own.wait_ready()
        assert daemon.pid not in (None, before)
