"""What a notebook server's job does before and beside Jupyter."""

from __future__ import annotations

import os
import time
import venv
from types import SimpleNamespace

import pytest
from submarine_runtime.notebook_server import IdleLimit, below_prefix, words

SERVES = "from submarine_runtime.notebook_server import serve\nserve()\n"


def test_an_environment_without_jupyter_says_what_it_lacks(task, tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    assert task.run(SERVES, python=str(tmp_path / "bare/bin/python"))
    assert task.outcome["error"]["type"].endswith("NotebookError")
    assert "has no jupyter-server and no jupyterlab" in task.outcome["error"]["message"]


def test_use_is_told_of_an_hour_and_ten_minutes_before_the_end():
    use = IdleLimit(7200.0)
    assert use.note_unused(100.0) is None
    assert "it ends in 59 min" in use.note_unused(3650.0)
    assert use.note_unused(3700.0) is None
    assert "it ends in 10 min" in use.note_unused(6600.0)
    assert use.note_unused(1.0) == ""  # used again: what was said holds no more
    assert use.note_unused(2.0) is None
    assert "it ends in 1 h" in use.note_unused(3600.0)
    assert not use.over
    assert "it ends, its GPUs are given back" in use.note_unused(7200.0)
    assert use.over
    assert use.note_unused(7300.0) is None


def test_a_short_limit_has_no_long_warning_and_none_never_ends():
    assert IdleLimit(600.0).note_unused(599.0) is None
    never = IdleLimit(0.0)
    assert never.note_unused(1e9) is None
    assert not never.over


def test_lengths_of_time_are_words():
    assert [words(each) for each in (2, 60, 90, 3600, 5400)] == [
        "2 s", "1 min", "2 min", "1 h", "1 h 30 min",
    ]  # fmt: skip
    assert [words(each) for each in (59.6, 599, 3580, 7199)] == ["1 min", "10 min", "1 h", "2 h"]


def test_who_keeps_it_uses_it(tmp_path):
    kept = tmp_path / "kept"
    use = IdleLimit(7200.0, kept)
    assert "it ends in 10 min" in use.note_unused(6600.0)
    kept.touch()
    assert use.note_unused(6601.0) == ""  # what was said holds no more
    assert use.note_unused(7300.0) is None
    assert not use.over
    long_ago = time.time() - 7300.0
    os.utime(kept, (long_ago, long_ago))
    assert "it ends, its GPUs are given back" in use.note_unused(7300.0)


CONFIG = {"baseUrl": "", "fullStaticUrl": "/static/lab", "token": "secret", "appName": "/x"}


def seen_below(prefix):
    headers = {"X-Forwarded-Prefix": prefix} if prefix else {}
    return below_prefix(SimpleNamespace(request=SimpleNamespace(headers=headers)), CONFIG)


def test_a_page_below_a_proxy_has_its_addresses_there_and_no_token():
    found = seen_below("/user/me/submarine/proxy/20260101-000000-abcde/8888/~0a1b")
    prefix = "/user/me/submarine/proxy/20260101-000000-abcde/8888/~0a1b"
    assert found == {
        "baseUrl": "", "fullStaticUrl": f"{prefix}/static/lab", "token": "",
        "appName": "/x",
    }  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "//evil.example", '/a" onload=', "http://x", "/" * 2000])
def test_a_prefix_that_is_none_changes_nothing(prefix):
    assert seen_below(prefix) == CONFIG
