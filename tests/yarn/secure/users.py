"""The users of a secure cluster of one's own, by their tickets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from submarine_engine.installer import realm

from tests.hadoop import Yarn


def kinit(yarn: Yarn, cache: Path, user: str, *options: str, kind: str = "FILE") -> str:
    """Get a ticket for a user; return how to name it."""
    name = f"{kind}:{cache}"
    keytab = realm.keytab(yarn.cluster.layout, user)
    subprocess.run(
        ["kinit", "-c", name, *options, "-kt", str(keytab), user], check=True, timeout=60
    )
    return name


def be(user: str, yarn: Yarn, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this test's process, and what it starts, be a user."""
    monkeypatch.setenv("KRB5CCNAME", kinit(yarn, folder / f"{user}.tickets", user))
