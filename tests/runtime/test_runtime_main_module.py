"""The script is a true ``__main__``: for itself, for pickle and for multiprocessing."""

import json

CLASSES = """
    import multiprocessing, pickle, sys

    class Net:
        def __init__(self, size): self.size = size

    def make(size): return Net(size)
"""


def script(body):
    return f"{CLASSES}\n    {body}"


def test_it_sees_what_a_script_sees(task):
    task.run(
        """
        import os, sys
        main = sys.modules["__main__"]
        {"name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path[0],
         "cwd": os.getcwd(), "own": main.__dict__ is globals(), "main": main.__name__,
         "spec": __spec__, "builtins": __builtins__ is __import__("builtins"), "stdin":
         sys.stdin.read()}
        """,
        args=["--epochs", "3"],
    )
    path = str(task.bundle / "script.py")
    assert task.value == {
        "name": "__main__", "file": path, "argv": [path, "--epochs", "3"],
        "path": str(task.bundle), "cwd": str(task.workdir), "own": True, "main": "__main__",
        "spec": None, "builtins": True, "stdin": "",
    }  # fmt: skip


def test_files_of_the_bundle_are_found_before_anything_else(task):
    files = {"json.py": "mine = 1", "helper.py": "def f(): return 'helped'"}
    task.run("import json, helper\n(json.mine, helper.f())", files=files)
    # Reading the outcome needs no user's json.
    assert json.loads((task.folder / "outcome.json").read_text())["kind"] == "returned"
    assert task.value == (1, "helped")


def test_the_runtime_hides_nothing_and_is_there(task):
    main = """
        import job, task
        from submarine_runtime import progress
        (task.here, job.here, progress.__name__)
    """
    files = {"task.py": "here = 'task'", "job.py": "here = 'job'", "main.py": main}
    task.run(files=files, entry="main.py")
    assert task.value == ("task", "job", "progress")


def test_its_classes_are_pickled_by_name(task):
    task.run(script("pickle.loads(pickle.dumps(Net(3))).__class__ is Net"))
    assert task.value is True


def test_its_instances_travel_by_reference_to_main(task):
    task.run(script("Net(3)"))
    content = (task.folder / "results" / "return.pkl").read_bytes()
    assert b"__main__" in content
    assert b"Net" in content


def test_forked_children_share_its_classes(task):
    task.run(
        script(
            """
    if __name__ == "__main__":
        with multiprocessing.get_context("fork").Pool(1) as pool:
            net = pool.apply(make, (4,))
        (type(net) is Net, net.size)
    """
        )
    )
    assert task.value == (True, 4), task.stderr


def test_spawned_children_share_its_classes(task):
    task.run(
        script(
            """
    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            net = pool.apply(make, (5,))
        (type(net) is Net, net.size)
    """
        )
    )
    assert task.value == (True, 5), task.stderr


def test_tracebacks_show_its_lines(task):
    task.run(
        "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    s = traceback.format_exc()\ns"
    )
    assert "    1 / 0\n" in task.value
    assert "submarine_runtime" not in task.value


def test_inspect_finds_its_source(task):
    task.run("import inspect\n\ndef f():\n    return 1\n\ninspect.getsource(f)")
    assert task.value == "def f():\n    return 1\n"
