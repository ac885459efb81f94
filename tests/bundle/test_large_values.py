"""Large blocks lie beside their pickle, copied nowhere, and are mapped into the job's memory."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from submarine_engine.bundle.capture import Capture

MIB = 1024 * 1024


def used():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_arrays_travel_by_a_file_that_is_mapped(notebook, formatted):
    notebook.run("import numpy as np\nx = np.arange(200_000.0)\nsmall = np.arange(300)")
    notebook.run("frozen = np.ones(150_000)\nfrozen.flags.writeable = False\nboth = [x, frozen, x]")
    bundle = notebook.bundle(
        "x += 1\nsmall[0] = 9\n"
        "print(x[-1], both[0] is x, small[0], frozen.flags.writeable, x.ctypes.data % 64)"
    )
    assert notebook.result(bundle) == "200000.0 True 9 False 0\n"
    assert notebook.namespace["x"][-1] == 199_999
    assert {path for path in bundle.files if path.startswith("values/")} == {
        "values/x.pkl",
        "values/x.bin",
        "values/small.pkl",
    }
    assert len(bundle.files["values/x.pkl"]) < 1000
    formatted(bundle)


def test_values_without_large_blocks_have_the_loader_that_they_had(notebook):
    notebook.run("table = [object, 1]")
    bundle = notebook.bundle("print(table)")
    assert "mmap" not in bundle.script
    assert set(bundle.files) == {"script.py", "values/table.pkl"}


def test_the_file_is_the_arrays_own_in_the_job(notebook):
    notebook.run("import numpy as np\nx = np.zeros(200_000)")
    bundle = notebook.bundle("x[:] = 1\nprint(x.sum())")
    folder = notebook.folder / "twice"
    bundle.write(folder)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=True
        )
        assert done.stdout == "200000.0\n"
    assert not any((folder / "values" / "x.bin").read_bytes()[64:])


def test_a_gigabyte_is_captured_and_hashed_without_a_copy_of_it(notebook):
    notebook.run("import numpy as np\nx = np.zeros(1 << 27)")
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used() + 256 * MIB, limit[1]))
    try:
        bundle = notebook.bundle("print(x.sum())", limit=2 << 30)
        assert len(bundle.files["values/x.bin"]) > 1 << 30
        assert len(bundle.hash) == 64
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


def test_equal_arrays_give_the_same_hash(notebook):
    hashes = set()
    for value in (1.0, 1.0, 2.0):
        notebook.namespace["x"] = np.full(200_000, value)
        hashes.add(notebook.bundle("print(x)").hash)
    assert len(hashes) == 2


def test_objects_that_write_to_their_array_as_they_are_loaded_do_not_touch_the_notebooks():
    capture = Capture()
    value = Greedy()
    capture.add("value", value)
    assert value.array.sum() == 0


class Greedy:
    def __init__(self):
        self.array = np.zeros(200_000)

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.array += 1
