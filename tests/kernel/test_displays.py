"""What a cell's job shows stands in the cell as if it had run right there: types, order, state."""

from __future__ import annotations

import pytest

RICH_OUTPUT = """
import sys
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import HTML, Image, Markdown, update_display

class Chart:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "chart", "application/vnd.vegalite.v5+json": {"a": 1}}, {"b": 2}

print("one")
display(pd.DataFrame({"a": [1, 2]}))
print("two")
display(HTML("<b>bold</b>"), Markdown("# title"), Chart())
print("warning", file=sys.stderr)
plt.plot([1, 2])
plt.show()
print("three")
handle = display("first state", display_id=True)
handle.update("second state")
update_display("third state", display_id=handle.display_id)
display(Image(data=b"\\x89PNG\\r\\n\\x1a\\n" + bytes(20), format="png"))
"""

FIGURE_LEFT_OPEN = """
import matplotlib.pyplot as plt
print("text")
plt.figure(figsize=(2, 1))
plt.bar([1], [2])
plt.figure(figsize=(1, 2))
plt.bar([1], [2])
1 + 1
"""

CLEARED = """
from IPython.display import clear_output, display, HTML
for epoch in range(4):
    clear_output(wait=True)
    display(HTML(f"<b>{epoch}</b>"))
    print("epoch", epoch)
"""

RICH = """
import rich
from rich.table import Table
rich.print("[bold]hello[/bold]")
table = Table("name")
table.add_row("value")
display(table)
"""

BAR = """
from tqdm.notebook import tqdm
for step in tqdm(range(3), desc="training"):
    pass
"""


SHOWN = ("stream", "display_data", "execute_result")
CARD = "application/vnd.submarine.job+json"


def outputs(messages):
    """Return a cell's outputs as a notebook stores them, without the card."""
    found, names, clear = [], {}, False
    for message in messages:
        kind, content = message["msg_type"], message["content"]
        data = content.get("data", {})
        if kind == "clear_output":
            found, clear = (found, True) if content["wait"] else ([], False)
        elif kind == "update_display_data":
            for output in found:
                if output[-1] == content["transient"]["display_id"]:
                    output[1:3] = [data, content["metadata"]]
        elif kind in SHOWN:
            found, clear = [] if clear else found, False
            if CARD not in data:
                add(found, kind, content)
    for output in found:  # names are made anew each time
        if output[0] != "stream" and output[-1]:
            output[-1] = names.setdefault(output[-1], len(names))
    return found


def add(found, kind, content):
    if kind != "stream":
        name = content.get("transient", {}).get("display_id")
        found.append([kind, content["data"], content["metadata"], name])
    elif found and found[-1][:2] == [kind, content["name"]]:
        found[-1][2] += content["text"]
    else:
        found.append([kind, content["name"], content["text"]])


@pytest.mark.sampled
@pytest.mark.parametrize("cell", [RICH_OUTPUT, FIGURE_LEFT_OPEN, CLEARED, RICH])
def test_a_cell_shows_the_same_as_a_job(kernel, cell):
    plain = kernel.run(cell)
    job = kernel.run(f"%%submarine --gpus 0\n{cell}")
    assert plain.reply["status"] == job.reply["status"] == "ok", job.text
    assert outputs(plain.messages)
    assert outputs(job.messages) == outputs(plain.messages)


def test_libraries_know_the_job_for_a_notebook_as_they_know_a_kernel(kernel):
    asked = "shell = type(get_ipython())\nprint(shell.__module__, shell.__name__)"  # as plotly asks
    plain = kernel.run(asked).stream("stdout")
    assert plain == "ipykernel.zmqshell ZMQInteractiveShell\n"
    assert kernel.run(f"%%submarine --gpus 0\n{asked}").stream("stdout") == plain


def test_a_bar_of_widgets_moves_as_text_in_its_display(kernel):
    plain = outputs(kernel.run(BAR).messages)
    job = outputs(kernel.run(f"%%submarine --gpus 0\n{BAR}").messages)
    assert [output[0] for output in job] == [output[0] for output in plain] == ["display_data"]
    assert job[0][1]["text/plain"].startswith("training: 100%|██████████| 3/3")


def test_a_display_is_in_the_cell_while_the_job_runs(kernel, tmp_path):
    gate = tmp_path / "gate"
    sent = kernel.send(
        "%%submarine --gpus 0\nimport os, time\n"
        f"display('now')\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    )
    for message in kernel.messages(sent):
        if message["content"].get("data", {}).get("text/plain") == "'now'":
            gate.touch()
    assert gate.exists()


def test_the_card_stays_above_what_a_job_clears(kernel):
    messages = kernel.run(f"%%submarine --gpus 0\n{CLEARED}").messages
    kinds = [m["msg_type"] for m in messages]
    last = len(kinds) - 1 - kinds[::-1].index("clear_output")
    card = messages[last + 1]["content"]
    assert "application/vnd.submarine.job+json" in card["data"]
    final = [m["content"] for m in messages if m["msg_type"] == "update_display_data"][-1]
    assert final["transient"] == card["transient"]
    assert final["data"]["application/vnd.submarine.job+json"]["state"] == "succeeded"


def test_attach_and_logs_show_it_again(kernel):
    ran = kernel.run(f"%%submarine --gpus 0 --name shown\n{RICH_OUTPUT}")
    for line in ("%submarine job attach shown", "%submarine job logs shown"):
        again = outputs(kernel.run(line).messages)
        assert [o[:2] for o in again] == [o[:2] for o in outputs(ran.messages)]


def test_a_figure_left_open_stands_below_the_error_of_the_cell(kernel):
    cell = "import matplotlib.pyplot as plt\nplt.plot([1])\nraise ValueError('no')"
    for source in (cell, f"%%submarine --gpus 0\n{cell}"):
        kinds = [
            m["msg_type"] for m in kernel.run(source).messages
            if m["msg_type"] == "error" or "image/png" in m["content"].get("data", {})
        ]  # fmt: skip
        assert kinds == ["error", "display_data"]


def test_a_flood_of_states_arrives_with_its_last_and_without_most(kernel):
    job = kernel.run(
        "%%submarine --gpus 0\nhandle = display(0, display_id=True)\n"
        "for n in range(5000): handle.update(n)\n"
    )
    [shown] = outputs(job.messages)
    assert shown[1] == {"text/plain": "4999"}
    assert len(job.of_type("update_display_data")) < 2500  # more where the job takes longer


def test_text_past_the_cells_limit_goes_on_below_a_display(driven):
    kernel = driven(env={"SUBMARINE_CELL_OUTPUT_LIMIT": "30000"})
    ran = kernel.run(
        "%%submarine --gpus 0\n"
        "for part in 'abc':\n"
        "    for n in range(4000): print(part, n)\n"
        "    display(part)\n"
    )
    shown = outputs(ran.messages)
    texts = [o[1]["text/plain"] for o in shown if o[0] == "display_data"]
    assert [text for text in texts if text.startswith("'")] == ["'a'", "'b'", "'c'"]
    for part in "abc":
        before = texts[: texts.index(f"'{part}'")]
        assert before[-1].rstrip().endswith(f"{part} 3999")
    assert sum(map(len, texts)) < 60_000


def test_a_figure_is_drawn_in_the_format_that_the_notebook_asked_for(kernel):
    kernel.run("%config InlineBackend.figure_format = 'svg'")
    try:
        cell = "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()"
        plain = outputs(kernel.run(cell).messages)
        job = outputs(kernel.run(f"%%submarine --gpus 0\n{cell}").messages)
    finally:
        kernel.run("%config InlineBackend.figure_format = 'png'")
    assert (
        [list(o[1]) for o in job]
        == [list(o[1]) for o in plain]
        == [["text/plain", "image/svg+xml"]]
    )


def test_a_function_that_is_launched_shows_what_it_displays(kernel):
    ran = kernel.run(
        "from submarine_magics import launch\n"
        "def train():\n    display('shown')\n    return 1\n"
        "launch(train, gpus=0)"
    )
    assert [o[1] for o in outputs(ran.messages)] == [
        {"text/plain": "'shown'"}, {"text/plain": "1"},
    ]  # fmt: skip


def test_a_job_cannot_pass_what_it_shows_off_as_a_card_or_a_widget(kernel):
    ran = kernel.run(
        "%%submarine --gpus 0\nfrom IPython.display import display\n"
        f"display({{'text/plain': 'mine', {CARD!r}: {{'job_id': 'other'}},"
        " 'application/vnd.jupyter.widget-view+json': {'model_id': '1'}}, raw=True)"
    )
    assert [o[1] for o in outputs(ran.messages)] == [{"text/plain": "mine"}]


def test_a_figure_of_a_job_is_a_picture_in_the_next_cells(kernel):
    ran = kernel.run("import matplotlib.pyplot as plt")
    assert ran.reply["status"] == "ok", ran.text
    kernel.run("%%submarine --gpus 0\nfigure, axes = plt.subplots()\naxes.plot([1, 2]);")
    assert "image/png" in kernel.run("figure").of_type("execute_result")[0]["data"]
    ran = kernel.run("%%submarine --gpus 0\naxes.set_title('again')\nfigure")
    assert "image/png" in ran.of_type("execute_result")[0]["data"]
    assert "stayed in the job" not in ran.text
    assert kernel.value("axes.get_title(), figure.axes[0] is axes") == "('again', True)"
