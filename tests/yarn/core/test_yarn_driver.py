"""Whether skein's driver cannot be started: by that a keeper without a job ends at once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from submarine_engine.clusters.yarn.driver import Driver
from submarine_engine.errors import ClusterError


def test_it_is_not_said_of_one_that_is_still_starting(tmp_path, monkeypatch):
    made = Driver(SimpleNamespace(conf=SimpleNamespace(kerberos=False), skein=tmp_path))
    answers, seen = [ClusterError("no Java"), SimpleNamespace()], []

    def start(self):
        seen.append(self.cannot_start)
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    monkeypatch.setattr(Driver, "_start", start)
    with pytest.raises(ClusterError, match="no Java"):
        made.start()
    assert made.cannot_start
    made.start()  # Java has come
    assert not made.cannot_start
    assert seen == [False, True]
