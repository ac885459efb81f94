"""What cannot travel is refused with its place in the value, its cell and the way out."""

import multiprocessing
import queue
import socket
import sqlite3
import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.bundle import BuildOptions, build_call
from submarine_engine.bundle import capture as capture_module
from submarine_engine.bundle.capture import Capture
from submarine_engine.errors import CannotTravelError

from tests.jobs import until


def captured(**values):
    capture = Capture()
    for name, value in values.items():
        capture.add(name, value, "In [3]")
    return capture.finish()


def refusal(**values):
    with pytest.raises(CannotTravelError) as caught:
        captured(**values)
    return caught.value


class Handle:
    __slots__ = ("handle",)

    def __init__(self, handle):
        self.handle = handle


def generator():
    yield 1


async def coroutine():
    pass


class Refusing:
    def __reduce__(self):
        raise ValueError("I stay here")


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError


class Silent:
    def __getstate__(self):
        raise UnspeakableError


class Unloadable:
    def __reduce__(self):
        return int, ("no number",)


def test_open_things_are_refused_with_path_cell_and_way_out(tmp_path):
    with (tmp_path / "log").open("w") as file, socket.socket() as connection:
        error = refusal(config={"runs": [{"log": file}]})
        assert error.what.startswith('`config["runs"][0]["log"]` is an open file')
        assert error.where == "In [3]"
        assert "open it inside the job" in error.fix
        assert "`net.handle` is an open socket" in str(refusal(net=Handle(connection)))
        assert "`file` is an open file" in str(refusal(file=file))
    database = sqlite3.connect(":memory:")
    assert "`db[1]` is a database connection" in str(refusal(db=(1, database)))
    database.close()


def held(lock):
    lock.acquire()
    return lock


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: held(threading.Lock()), "a lock"),
        (lambda: held(threading.RLock()), "a lock"),
        (lambda: held(threading.Condition()), "a lock or another"),
        (threading.Thread, "a thread"),
        (queue.SimpleQueue, "a queue"),
        (multiprocessing.Lock, "a tool of other processes"),
        (ThreadPoolExecutor, "a pool of threads"),
        (generator, "a generator"),
        (sys._getframe, "a stack frame"),
        (lambda: memoryview(b"abc"), "a view on memory"),
    ],
)
def test_live_things_are_refused_by_what_they_are(make, words):
    error = refusal(things=[make()])
    assert error.what.startswith(f"`things[0]` is {words}")
    assert error.fix


def test_a_coroutine_is_refused():
    waiting = coroutine()
    assert "`waiting` is a coroutine" in str(refusal(waiting=waiting))
    waiting.close()


def test_the_shell_is_refused():
    shell = InteractiveShell()
    assert "`holder.handle` is the notebook's own shell" in str(refusal(holder=Handle(shell)))


class Device:
    platform = "gpu"


def foreign(module, **attributes):
    """Return an object of a class of another module, as a framework that is not here has it."""
    kind = type("Tensor", (), {"__module__": module, **attributes})
    return kind()


@pytest.mark.parametrize(
    "tensor",
    [
        foreign("torch.nn.parameter", is_cuda=False, device=types.SimpleNamespace(type="mps")),
        foreign("jaxlib._jax", devices=lambda _: {Device()}),
        foreign("tensorflow.python", device="/job:localhost/replica:0/task:0/device:GPU:0"),
        foreign("cupy", __cuda_array_interface__={}),
    ],
    ids=lambda tensor: type(tensor).__module__,
)
def test_arrays_on_a_gpu_are_refused(tensor):
    error = refusal(state={"weights": tensor})
    assert '`state["weights"]` is an array on a device' in error.what
    assert ".cpu()" in error.fix


def test_objects_that_refuse_are_quoted():
    assert "`objects[1]` (Refusing) cannot be pickled: ValueError: I stay here" in str(
        refusal(objects=[1, Refusing()])
    ).replace(f"{__name__}.", "")
    assert "UnspeakableError: (its message cannot be shown)" in str(refusal(silent=Silent()))


def test_what_cannot_be_unpacked_is_refused():
    error = refusal(failure=Unloadable())
    assert "can be pickled, but not loaded again: ValueError" in error.what


def test_endless_nesting_is_refused():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert "nested too deeply" in str(refusal(nested=nested))


class Warner:
    def __reduce__(self):
        warnings.warn("our own look", stacklevel=1)
        return int, ()


def test_our_own_look_at_a_value_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured(value=[Warner()])


class Loud:
    @property
    def is_cuda(self):
        raise AssertionError("a property was called")


def test_no_property_is_called():
    captured(value=[Loud()])


@pytest.mark.parametrize("way", ["cell", "call"])
def test_what_hangs_is_named_and_can_be_interrupted(notebook, monkeypatch, way):
    monkeypatch.setattr(capture_module, "PATIENCE", 0.1)
    say = capture_module.Notice._say

    def say_once_it_is_known(notice):
        until(lambda: notice.now)  # counted from before the first value is looked at
        say(notice)

    monkeypatch.setattr(capture_module.Notice, "_say", say_once_it_is_known)
    notebook.run(
        "import threading\n"
        "told = threading.Event()\n"
        "class Hanging:\n"
        "    def __reduce__(self):\n"
        "        assert told.wait(180)\n"
        "        raise KeyboardInterrupt\n"
        "data = [Hanging()]\n"
        "def train(data): pass"
    )
    said = []

    def tell(text):
        said.append(text)
        notebook.namespace["told"].set()

    def call(_, tell):
        known = notebook.namespace
        options = BuildOptions(tell=tell)
        build_call(known["train"], (known["data"],), {}, notebook.cells, known, options=options)

    with pytest.raises(KeyboardInterrupt):
        (notebook.bundle if way == "cell" else call)("print(data)", tell=tell)
    assert said == ["still capturing `data` (list); interrupt to stop"]
