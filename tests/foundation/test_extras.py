"""What is told to install something works as it is told."""

from __future__ import annotations

import json
import re
import shlex
import sys

import pytest
from submarine_engine import extras
from submarine_engine.extras import install_extra, install_here


class Package:
    """Stands for an installed package: what its metadata says."""

    requires = ("click>=8.1,<9", "skein >= 0.8 ; extra == 'yarn'", 'thing; extra == "gpu"')

    def __init__(self, told=None):
        self._told = told

    def read_text(self, _name):
        return None if self._told is None else json.dumps(self._told)


def test_an_extra_is_what_it_asks_for():
    """The name of the package is no such thing where no index has it."""
    command = shlex.split(install_extra("yarn"))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    names = {re.split("[<>=]", word)[0] for word in command[4:]}
    assert names == {"fsspec", "grpcio", "protobuf", "requests", "skein"}
    assert shlex.split(install_extra("gpu", "/a b/python"))[0] == "/a b/python"
    assert install_extra("none-such").endswith("install 'submarine-notebook[none-such]'")


def test_only_that_extra(monkeypatch):
    monkeypatch.setattr(extras, "_package", Package)
    assert install_extra("yarn").endswith(" install 'skein>=0.8'")


@pytest.mark.parametrize(
    ("told", "source"),
    [
        ({"url": "file:///a%20b/x.whl", "archive_info": {}}, "/a b/x.whl[jupyter]"),
        ({"url": "file:///there", "dir_info": {"editable": True}}, "/there[jupyter]"),
        (
            {"url": "https://git.example/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "submarine-notebook[jupyter] @ git+https://git.example/x@abc",
        ),
        (
            {"url": "https://files.example/x.whl", "archive_info": {}},
            "submarine-notebook[jupyter] @ https://files.example/x.whl",
        ),
        (None, "submarine-notebook[jupyter]"),
        ([], "submarine-notebook[jupyter]"),
    ],
)
def test_the_package_itself_is_taken_from_where_it_came(monkeypatch, told, source):
    monkeypatch.setattr(extras, "_package", lambda: Package(told))
    assert shlex.split(install_here("jupyter"))[4:] == [source]


def test_without_any_metadata_there_is_the_name(monkeypatch):
    def missing():
        raise ModuleNotFoundError

    monkeypatch.setattr(extras, "_package", missing)
    assert "submarine-notebook[yarn]" in install_extra("yarn")
    assert "submarine-notebook[yarn]" in install_here("yarn")
