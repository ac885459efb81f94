"""A user of HDFS with a home of their own, for each test."""

from __future__ import annotations

import secrets

import pytest
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import open_hdfs


def new_user(conf):
    """Make a home in HDFS as its administrator does; return the user's name."""
    name = f"u{secrets.token_hex(4)}"
    administrator = open_hdfs(conf)
    administrator._web.mkdir(f"/user/{name}")
    administrator._web.chown(f"/user/{name}", owner=name, group=name)
    administrator.close()
    return name


@pytest.fixture
def conf(on_yarn):
    """Return the shared cluster's configuration."""
    return load_hadoop()


@pytest.fixture
def files(conf):
    """Return HDFS as a user whom nobody else is."""
    hdfs = open_hdfs(conf, new_user(conf))
    assert hdfs is not None
    yield hdfs
    hdfs.close()
