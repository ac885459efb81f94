"""What a container left, where what was to bring it to HDFS came too late."""

import json

import pytest
from submarine_engine.clusters.container import Container
from submarine_engine.errors import ClusterError
from submarine_engine.history import JobPaths


class Brought:
    """A source as of HDFS that has all that will come: the files that it was given."""

    container = "container_1_0001_01_000002"
    live = False
    settled = True

    def __init__(self, **files):
        self.files = {name.replace("_", "."): data for name, data in files.items()}

    def sizes(self):
        return {name: len(data) for name, data in self.files.items()}

    def read(self, name, offset, limit):
        return self.files[name][offset : offset + limit]


@pytest.mark.parametrize(
    ("gathered", "files", "complete"),
    [
        (True, {"stdout": b"all\n"}, False),  # log aggregation was faster: it has the rest
        (True, {"stdout": b"all\n", "exit": b"0\n"}, True),
        (False, {"stdout": b"all\n"}, True),  # killed, and its application goes on
    ],
)
def test_a_container_without_a_last_word(tmp_path, gathered, files, complete):
    container = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 0)
    container.see(Brought(**files))
    container.gathered = gathered
    assert container.drain() is complete
    assert container.files.stdout.read_bytes() == b"all\n"
    assert container.exit_status == (0 if "exit" in files else None)


def returned(size):
    """A source with an outcome and a result, of which not more than `size` bytes come."""
    result = {"format": "pickle", "file": "return.pkl", "size": 12}
    outcome = json.dumps({"result": result}).encode()
    files = {"stdout": b"1\n", "outcome.json": outcome, "return.pkl": b"x" * 12}

    class Returned(Brought):
        def read(self, name, offset, limit):
            limit = limit if name != "return.pkl" else max(0, min(limit, size - offset, 5))
            return super().read(name, offset, limit)

    source = Returned()
    source.files = files
    return source


def test_a_result_comes_whole_in_pieces(tmp_path):
    container = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 0)
    container.see(returned(12))
    assert container.drain()
    assert (container.files.results / "return.pkl").read_bytes() == b"x" * 12
    assert container.files.outcome.exists()


def test_half_a_result_is_none(tmp_path):
    container = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 0)
    container.see(returned(7))
    with pytest.raises(ClusterError, match="has 12 bytes, and only 7 come"):
        container.drain()
    assert list(container.files.results.iterdir()) == []
    assert not container.files.outcome.exists()
