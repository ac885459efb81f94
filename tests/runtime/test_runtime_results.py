"""Results that are hard to bring home, and disks that are full."""

import shutil

import pytest

AWKWARD = {
    "a lambda": ("lambda: 1", "<function <lambda> at "),
    "a generator": ("(i for i in [1])", "<generator object <genexpr> at "),
    "an open file": ("open('/dev/null')", "<_io.TextIOWrapper name='/dev/null' "),
    "a lock": ("__import__('threading').Lock()", "<unlocked _thread.lock object at "),
    "a module": ("__import__('json')", "<module 'json' from "),
    "no reduce": ("Sulky()", "sulky"),
    "exits while pickled": ("Exits()", "exits"),
    "no repr either": ("Mute()", "<__main__.Mute object at "),
    "very deep": ("deep()", "<list object at "),
    "one of many": ("{'fine': 1, 'not': lambda: 1}", "{'fine': 1, 'not': <function <lambda> at "),
    "beyond UTF-8": ("Sulky('\\ud800')", "\\ud800"),
    "a metaclass that raises": ("Strange()", "<"),
    "an OSError": ("Disk()", "disk"),
}
CLASSES = """
class Sulky:
    def __init__(self, text="sulky"): self.text = text
    def __reduce__(self): raise ValueError("no")
    def __repr__(self): return self.text
class Exits:
    def __reduce__(self): raise SystemExit(3)
    def __repr__(self): return "exits"
class Stern(type):
    def __getattribute__(cls, name):
        if name != "__dict__": raise RuntimeError("no " + name)
        return super().__getattribute__(name)
class Strange(metaclass=Stern): pass
class Disk:
    def __reduce__(self): raise OSError(28, "not the disk's fault")
    def __repr__(self): return "disk"
class Mute:
    def __reduce__(self): raise KeyboardInterrupt
    def __repr__(self): raise MemoryError
def deep():
    inner = []
    for _ in range(100_000): inner = [inner]
    return inner
"""


@pytest.mark.parametrize(("expression", "text"), AWKWARD.values(), ids=AWKWARD)
def test_what_cannot_be_pickled_comes_back_as_text(task, expression, text):
    assert task.run(f"{CLASSES}\n{expression}") == 0
    result = task.outcome["result"]
    assert (task.outcome["kind"], result["format"], result["file"]) == (
        "returned", "text", "return.txt",
    )  # fmt: skip
    assert task.value.startswith(text)
    assert result["warning"].startswith(f"the result ({result['type']}) cannot be pickled and")
    assert [path.name for path in (task.folder / "results").iterdir()] == ["return.txt"]


def test_long_text_is_cut(task):
    task.run(f"{CLASSES}\nSulky('x' * 1_000_000)")
    assert task.value.endswith("… (1,000,000 characters in all)")
    assert len(task.value) < 30_000


def test_one_bad_variable_spoils_no_other(task):
    task.run("good, bad = [1], lambda: 1")
    outputs = task.outcome["outputs"]
    assert (task.output("good"), outputs["bad"]["format"]) == ([1], "text")
    assert outputs["bad"]["warning"].startswith("`bad` (function) cannot be pickled")


def test_a_large_result_is_whole(task):
    task.run("bytes(range(256)) * 200_000")
    assert task.value == bytes(range(256)) * 200_000
    assert task.outcome["result"]["size"] > 51_200_000


# A limit on the size of files fails as a full disk does, for one process alone.
FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"


def test_a_result_that_finds_no_room_fails_the_job(task):
    assert task.run(f"{FULL}bytes(1_000_000)") == 1
    outcome = task.outcome
    assert (outcome["kind"], outcome["exit_code"]) == ("raised", 1)
    assert outcome["error"]["type"] == "OSError"
    assert outcome["error"]["message"] == "the result could not be written: File too large"
    assert "submarine: the result could not be written: File too large" in task.stderr
    assert list((task.folder / "results").iterdir()) == []


def test_whatever_goes_wrong_as_a_result_is_written_is_said(task):
    script = """
import submarine_runtime.outcome as outcome
about = outcome._entry
def entry(value):
    if value is not None: raise RuntimeError("no such thing")
    return about(value)
outcome._entry = entry
[1]
"""
    assert task.run(script) == 1
    told = task.outcome
    assert (told["kind"], told["error"]["type"]) == ("raised", "RuntimeError")
    words = "the result could not be written: RuntimeError: no such thing"
    assert told["error"]["message"] == words
    assert f"submarine: {words}" in task.stderr


def test_room_for_the_outcome_is_taken_beforehand(task):
    """A disk that fills up meanwhile cannot keep the task from saying so."""
    task.run(
        "import os\nos.stat(os.environ['SUBMARINE_TASK_DIR'] + '/.outcome.json.new').st_blocks"
    )
    assert task.value * 512 >= 64 * 1024
    assert not (task.folder / ".outcome.json.new").exists()
    assert (task.folder / "outcome.json").stat().st_size < 4096


def test_a_folder_deleted_meanwhile_is_said(task):
    task.start(
        """
        import os, time
        print("began")
        while not os.path.exists("go"):
            time.sleep(0.01)
        [1]
        """
    )
    task.said("began")
    shutil.rmtree(task.folder)
    (task.workdir / "go").touch()
    assert task.wait() == 1


@pytest.mark.parametrize(("script", "files"), [("[1] * 1000", 1), ("x = [1]; y = [2]\nx, y", 2)])
def test_what_the_gpu_was_held_for_is_told(task, script, files):
    assert task.run(script) == 0
    written = list((task.folder / "results").iterdir())
    assert len(written) == files
    wrote = task.outcome["wrote"]
    assert wrote["size"] == sum(path.stat().st_size for path in written)
    assert wrote["seconds"] > 0


def test_text_of_results_is_private(task):
    task.run("lambda: 1")
    path = task.folder / "results" / "return.txt"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_user_file_named_like_ours_changes_nothing(task):
    names = ("pickle", "json", "linecache", "ctypes", "tokenize")
    files = {f"{name}.py": "mine = 1" for name in names}
    script = "".join(f"import {name}\n" for name in names) + "class A: pass\nA()"
    assert task.run(script, files=files) == 0
    assert task.outcome["result"]["format"] == "pickle"
    assert task.outcome["result"]["type"] == "__main__.A"
