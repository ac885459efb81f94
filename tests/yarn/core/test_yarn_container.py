"""What a container left, where what was to bring it to HDFS came too late."""

import pytest
from submarine_engine.clusters.yarn.container import Container
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
