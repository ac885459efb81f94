"""What a job shows, as the runtime writes it down: a real process, IPython as it is installed."""

from __future__ import annotations

import json
import re
import textwrap

import pytest
from submarine_runtime import displays, lean, tables
from submarine_runtime.bars import NESTED

NOTEBOOK = {"MPLBACKEND": displays.INLINE}


def frames(task):
    path = task.folder / displays.FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_display_stands_between_the_text_around_it(task):
    script = """
        import sys
        from IPython.display import HTML, display
        print("before")
        print("warning", file=sys.stderr)
        display(HTML("<b>x</b>"), metadata={"key": 1})
        print("after")
    """
    assert task.run(script, env=NOTEBOOK) == 0
    [frame] = frames(task)
    assert frame == {
        "kind": "display", "id": None, "metadata": {"key": 1},
        "data": {"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>x</b>"},
        "stdout": len("before\n"), "stderr": len("warning\n"),
    }  # fmt: skip
    assert (task.folder / displays.FILE).stat().st_mode & 0o777 == 0o600


def test_a_display_does_not_make_the_task_s_end_look_for_open_files(task):
    script = """
        from IPython.display import display
        from submarine_runtime import leave
        display("x")
        print(leave._holds_files())
        with open("own", "w"):
            print(leave._holds_files())
    """
    assert task.run(script, env=NOTEBOOK, moments=True) == 0
    assert (task.folder / "stdout").read_text() == "False\nTrue\n"


def test_updates_and_clearing_are_frames_of_their_own(task):
    script = """
        from IPython.display import clear_output, display, update_display
        handle = display("a", display_id="one")
        handle.update("b")
        update_display("c", display_id="one")
        clear_output(wait=True)
        clear_output()
    """
    assert task.run(script) == 0
    told = [(f["kind"], f.get("id"), f.get("wait"), f.get("data")) for f in frames(task)]
    assert told == [
        ("display", "one", None, {"text/plain": "'a'"}),
        ("update", "one", None, {"text/plain": "'b'"}),
        ("update", "one", None, {"text/plain": "'c'"}),
        ("clear", None, True, None),
        ("clear", None, False, None),
    ]


def test_figures_are_shown_by_show_and_at_the_end_though_the_code_fails(task):
    script = """
        import matplotlib.pyplot as plt
        plt.plot([1, 2])
        plt.show()
        print("shown")
        for _ in range(2):
            plt.figure()
            plt.plot([2, 1])
        raise ValueError("late")
    """
    assert task.run(script, env=NOTEBOOK) == 1
    found = frames(task)
    assert [list(f["data"]) for f in found] == [["text/plain", "image/png"]] * 3
    assert [f["stdout"] for f in found] == [0, 6, 6]
    assert [f.get("last", False) for f in found] == [False, True, True]


def test_bars_and_rich_show_themselves_as_in_a_notebook(task):
    pytest.importorskip("ipywidgets")
    script = """
        from tqdm.notebook import tqdm
        for _ in tqdm(range(3), desc="epoch"): pass
        import rich
        rich.print("[bold]hello[/bold]")
    """
    assert task.run(script, env=NOTEBOOK) == 0
    bar, *updates, text = frames(task)
    # To make its widgets may take a second or more.
    first = r"epoch:   0%\|          \| 0/3 \[\d\d:\d\d<\?, \?it/s\]"
    assert re.fullmatch(first, bar["data"].pop("text/plain"))
    assert not bar["data"]
    assert {f["kind"] for f in updates} == {"update"}
    assert {f["id"] for f in updates} == {bar["id"]}
    assert "epoch: 100%|██████████| 3/3" in updates[-1]["data"]["text/plain"]
    assert "<span" in text["data"]["text/html"]
    assert task.stdout == task.stderr == ""


def test_bars_of_tqdm_auto_are_displays_without_ipython(task):
    script = """
        import sys
        from tqdm.auto import tqdm, trange
        for _ in tqdm(range(2), desc="outer"):
            print("epoch")
            for _ in trange(3, desc="inner", leave=False): pass
        for _ in tqdm(range(1), desc="log", file=sys.stderr): pass
        for _ in tqdm(range(1), desc="none", disable=True): pass
        "IPython" in sys.modules
    """
    assert task.run(script, env=NOTEBOOK) == 0
    assert task.value is False
    found = frames(task)
    outer, inner = [f for f in found if f["kind"] == "display"]
    assert outer["data"] == {"text/plain": "outer:   0%|          | 0/2 [00:00<?, ?it/s]"}
    assert outer["metadata"] == {}
    # One place for all of the inner ones, and nothing is left in it.
    assert {f["id"] for f in found} == {outer["id"], inner["id"]}
    assert {tuple(f["metadata"]) for f in found if f["id"] == inner["id"]} == {(NESTED,)}
    last = {f["id"]: f["data"]["text/plain"] for f in found}
    assert last[inner["id"]] == ""
    assert "outer: 100%|██████████| 2/2" in last[outer["id"]]
    assert [outer["stdout"], inner["stdout"]] == [0, 6]
    assert task.stdout == "epoch\nepoch\n"
    assert "log: 100%" in task.stderr
    assert "outer" not in task.stderr


def test_without_a_notebook_bars_are_text(task):
    script = "from tqdm.auto import tqdm\nfor _ in tqdm(range(2), desc='bar'): pass"
    assert task.run(script) == 0
    assert "bar: 100%" in task.stderr


def test_the_shell_is_as_in_a_notebook_and_leaves_the_names_alone(task):
    script = """
        before = set(globals())
        kind = type(get_ipython()).__name__
        import IPython
        same = IPython.get_ipython() is get_ipython()
        new = sorted(set(globals()) - before - {"before", "kind", "IPython", "same", "__builtin__"})
        (kind, same, new)
    """
    assert task.run(script, env=NOTEBOOK) == 0
    assert task.value == ("ZMQInteractiveShell", True, [])


def test_without_a_display_nothing_is_imported_and_no_file_made(task):
    script = """
        import sys
        [name for name in ("IPython", "json", "matplotlib", "submarine_runtime.shell")
         if name in sys.modules]
    """
    assert task.run(script, env=NOTEBOOK) == 0
    assert task.value == []
    assert not (task.folder / displays.FILE).exists()


def test_outside_a_notebook_libraries_see_none(task):
    script = """
        try:
            get_ipython
        except NameError:
            print("no notebook")
        import rich
        rich.print("hello")
    """
    assert task.run(script, env={"MPLBACKEND": "Agg"}) == 0
    assert task.stdout == "no notebook\nhello\n"


def test_a_backend_that_is_not_installed_is_not_asked_for(task):
    script = """
        import sys
        class Without:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("IPython", "matplotlib_inline"):
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Without())
        import matplotlib.pyplot as plt
        plt.plot([1, 2]); plt.show()
        plt.get_backend()
    """
    assert task.run(script, env=NOTEBOOK) == 0, task.stderr
    assert task.value.lower() == "agg"
    assert frames(task) == []


def test_a_launch_command_has_no_notebook_to_draw_into(task):
    assert task.run(command='echo "$MPLBACKEND"', env=NOTEBOOK) == 0
    assert task.stdout == "Agg\n"


def test_what_json_has_no_word_for_is_told_as_a_kernel_tells_it(task):
    script = """
        import datetime, numpy
        from IPython.display import display
        display({"text/plain": "x", "image/png": b"png", "application/x+json": {
            "nan": float("nan"), "int": numpy.int64(3), "at": datetime.date(2020, 1, 2),
            "array": numpy.arange(2), "other": object}}, raw=True)
    """
    assert task.run(script) == 0
    [frame] = frames(task)
    assert frame["data"]["image/png"] == "cG5n"
    assert frame["data"]["application/x+json"] == {
        "nan": "nan", "int": 3, "at": "2020-01-02", "array": [0, 1], "other": "<class 'object'>",
    }  # fmt: skip


def test_too_large_a_display_is_left_out_with_a_word(task):
    script = """
        from IPython.display import display
        display({"text/plain": "a picture", "image/png": "x" * (11 << 20)}, raw=True)
        display({"text/plain": "small"}, raw=True)
    """
    assert task.run(script) == 0
    assert [f["data"] for f in frames(task)] == [
        {"text/plain": "a picture"},
        {"text/plain": "small"},
    ]
    assert task.stderr == "submarine: a display of 11 MB is left out: one may take 10 MB\n"


def test_all_displays_together_have_a_limit_which_is_said_once(task):
    script = """
        from IPython.display import display
        for _ in range(9):
            display({"image/png": "x" * (9 << 20)}, raw=True)
    """
    assert task.run(script) == 0
    assert len(frames(task)) == 7
    assert (task.folder / displays.FILE).stat().st_size < displays.MOST
    assert task.stderr == "submarine: its displays have 64 MB: no more of them are shown\n"


def test_a_picture_that_is_drawn_anew_for_hours_leaves_room_and_ends_with_its_last_state(
    tmp_path, monkeypatch
):
    clock = [0.0]
    monkeypatch.setattr(displays.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(displays, "MOST", 1 << 20)
    monkeypatch.setattr(displays, "_PLENTY", 1 << 19)
    made = displays.DisplayWriter(str(tmp_path))
    made.show({"text/plain": ""}, display_id="x")
    for number in range(20_000):
        clock[0] += 0.5
        made.show({"text/plain": f"{number:>1000}"}, display_id="x", update=True)
    made.finish()
    lines = (tmp_path / displays.FILE).read_text().splitlines()
    assert sum(map(len, lines)) < 1 << 20
    assert json.loads(lines[-1])["data"] == {"text/plain": f"{19_999:>1000}"}


@pytest.mark.parametrize("gone", [False, True])
def test_the_library_is_not_imported_anew_where_the_path_begins_with_no_name(
    tmp_path, monkeypatch, gone
):
    """As in a shell: everything would lie below it, and each frame would import `json` anew."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    if gone:
        here.rmdir()
    assert lean.standard("json", "") is json


def test_forks_write_frames_that_stay_whole(task):
    script = """
        import os
        from IPython.display import display
        display("parent")
        children = []
        for number in range(4):
            if not (pid := os.fork()):
                for _ in range(50):
                    display({"text/plain": str(number) * 20_000}, raw=True)
                os._exit(0)
            children.append(pid)
        [os.waitpid(pid, 0)[1] for pid in children]
    """
    assert task.run(script) == 0
    assert task.value == [0, 0, 0, 0]
    assert len(frames(task)) == 201


def test_a_module_that_is_there_already_is_seen_to(task):
    """As where imports were made ahead of the job."""
    ahead = task.workdir / "sitecustomize.py"
    ahead.write_text(
        "import IPython, matplotlib.pyplot, matplotlib_inline.backend_inline, tqdm.notebook"
    )
    script = """
        display(1)
        import matplotlib.pyplot as plt
        plt.plot([1, 2])
        plt.show()
    """
    env = {**NOTEBOOK, "PYTHONPATH": str(task.workdir)}
    assert task.run("from IPython.display import display\n" + textwrap.dedent(script), env=env) == 0
    assert [list(f["data"]) for f in frames(task)] == [["text/plain"], ["text/plain", "image/png"]]


def test_a_front_end_with_tables_of_its_own_is_told_frames_as_rows(task):
    script = """
        import pandas
        from IPython.display import display
        display(pandas.DataFrame({"a": [1, None]}, index=["x", "y"]))
        display(pandas.Series([True], name="b"))
        display("text")
    """
    assert task.run(script, env={displays.TABLES: "1"}) == 0
    frame, series, text = (f["data"] for f in frames(task))
    assert frame[tables.TYPE] == {
        "columns": ["index", "a"], "rows": [["x", "1.0"], ["y", ""]], "total": 2,
    }  # fmt: skip
    assert series[tables.TYPE] == {"columns": ["b"], "rows": [["True"]], "total": 1}
    assert list(text) == ["text/plain"]


def test_an_output_widget_is_one_display_that_is_cleared_by_itself(task):
    pytest.importorskip("ipywidgets")
    script = """
        import ipywidgets, threading
        from IPython.display import HTML, Markdown, clear_output, display
        region = ipywidgets.Output()
        display(region)
        with region:
            display("one")
            handle = display(HTML("<b>&</b>"), display_id="x")
            display({"text/plain": "a <picture>"}, raw=True)
            handle.update(HTML("<i>new</i>"))
            other = threading.Thread(target=display, args=("elsewhere",))
            other.start()
            other.join()
        region.clear_output(wait=True)
        with region:
            display("two")
        region.clear_output()
        display("below")
    """
    assert task.run(script, env=NOTEBOOK) == 0, task.stderr
    shown, *told = frames(task)
    assert (shown["kind"], shown["data"]) == ("display", {"text/plain": "Output()"})
    inside = [f["data"] for f in told if f.get("id") == shown["id"]]
    assert inside[0] == {"text/plain": "'one'"}
    assert inside[-3] == {
        "text/plain": "'one'\n<IPython.core.display.HTML object>\na <picture>",
        "text/html": "<pre>'one'</pre>\n<i>new</i>\n<pre>a &lt;picture></pre>",
    }
    assert inside[-2:] == [{"text/plain": "'two'"}, {"text/plain": ""}]
    rest = [(f["kind"], f["data"]["text/plain"]) for f in told if f.get("id") != shown["id"]]
    assert rest == [("display", "'elsewhere'"), ("display", "'below'")]


def test_rich_follows_a_loop_in_one_place_and_clears_nothing_else(task):
    pytest.importorskip("ipywidgets")
    script = """
        from rich.progress import track
        for step in track(range(3), description="steps"): pass
    """
    assert task.run(script, env=NOTEBOOK) == 0, task.stderr
    found = frames(task)
    assert "clear" not in {f["kind"] for f in found}
    assert "100%" in [f for f in found if f["kind"] == "update"][-1]["data"]["text/html"]


def test_a_release_that_keeps_things_beside_its_shell_has_a_folder_in_the_task(task):
    """IPython 7 and 8 ask for it as they begin."""
    assert task.run("get_ipython().profile_dir.location", env=NOTEBOOK) == 0
    folder = task.folder / ".ipython"
    assert task.value == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
