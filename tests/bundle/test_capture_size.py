"""What is too large is refused, all of it together, without being copied first."""

import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
from submarine_engine.bundle import Cell
from submarine_engine.bundle.capture import Capture
from submarine_engine.errors import CaptureTooLargeError

MIB = 1024 * 1024


def loaded(found):
    """Return the variables as the script would have them."""
    names = {name: eval(source) for name, source in found.literals.items()}  # noqa: S307
    for load in found.loads:
        value = pickle.loads(found.files[load.path])  # noqa: S301
        names |= (
            {load.names[0]: value}
            if len(load.names) == 1
            else dict(zip(load.names, value, strict=True))
        )
    return names


def too_large(limit=MIB, **values):
    capture = Capture(limit)
    for number, (name, value) in enumerate(values.items()):
        capture.add(name, value, Cell(number=number, source=""))
    with pytest.raises(CaptureTooLargeError) as caught:
        capture.finish()
    return caught.value


def test_a_gigabyte_is_refused_without_a_copy_of_it():
    limit = resource.getrlimit(resource.RLIMIT_AS)
    table = np.zeros(1 << 27)  # the kernel gives zeros only when they are written to
    text = bytes(1 << 30)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 256 * MIB, limit[1]))
    try:
        error = too_large(table=table, small=[0] * 1000, text={"deep": [text]}, view=table[::2])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert error.what.splitlines() == [
        "the values that the job takes along need 2.5 GiB, and 1 MiB may travel:",
        "  table: 1 GiB, numpy.ndarray, In [0]",
        "  text: 1 GiB, dict, In [2]",
        "  view: more than 512 MiB, numpy.ndarray, In [3]",
        "  small: 2 KiB, list, In [1]",
    ]
    assert "--input_path" in error.fix
    assert "SUBMARINE_CAPTURE_LIMIT" in error.fix
    assert error.limit == MIB
    assert [(value.name, value.cell, value.size >> 20) for value in error.values] == [
        ("table", "In [0]", 1024),
        ("text", "In [2]", 1024),
        ("view", "In [3]", 512),
        ("small", "In [1]", 0),
    ]
    assert pickle.loads(pickle.dumps(error)).values == error.values  # noqa: S301 - our own bytes


def test_masses_of_small_objects_are_not_counted_to_their_end():
    endless = list(range(3_000_000))
    assert "more than 1 MiB, list" in too_large(endless=endless).what


def test_the_limit_holds_for_all_values_together():
    values = {name: os.urandom(MIB // 4) for name in "abcd"}
    assert "a: 256 KiB" in too_large(**values).what
    capture = Capture(2 * MIB)
    for name, value in values.items():
        capture.add(name, value)
    assert loaded(capture.finish()) == values


def test_what_is_in_two_values_counts_once():
    weights = [os.urandom(700 * 1024)]
    capture = Capture(MIB)
    capture.add("model", {"weights": weights})
    capture.add("optimizer", {"state": weights})
    capture.add("rest", os.urandom(100 * 1024))
    assert len(loaded(capture.finish())["rest"]) == 100 * 1024
