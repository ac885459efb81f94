"""Tests for whoever writes a cluster: the contract that all of them keep.

A test module of a backend imports `submarine_engine.testing.contract` whole, and gives the fixture
`cluster`, a `Place` on a cluster with four GPUs::

    import pytest
    from submarine_engine.testing import Place
    from submarine_engine.testing.contract import *

    @pytest.fixture
    def cluster(tmp_path, monkeypatch):
        monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
        place = Place("mine", tmp_path / "home", tmp_path)
        yield place
        place.clean_up()

Needs the packages of the extra ``testing``.
"""

import pytest

# Before they are imported: a test that fails says what it compared.
pytest.register_assert_rewrite("submarine_engine.testing.contract")

from submarine_engine.testing.place import Place  # noqa: E402 - as above

__all__ = ["Place"]
