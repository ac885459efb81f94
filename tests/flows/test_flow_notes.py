"""Zeppelin's notes as flows: which paragraph is what, forms as parameters, and back to a note."""

from __future__ import annotations

import json

import pytest
from submarine_engine.errors import SubmarineError
from submarine_engine.flows.build import build_flow
from submarine_engine.flows.notebook import read_notebook

NIGHTLY = (
    "%md\n# Nightly",
    (
        '%submarine.python\nday = z.input("day", "2026-11-22")\nrate = ${rate=0.5}\n'
        'mode = "${mode=fast}"\n\nimport math'
    ),
    ("data", "%python\ndata = [1.0, float(len(day))]\nz.show(data)"),
    "%submarine\njob list\ngpus",
    "%submarine.run --gpus ${gpus=0} --name fit\nmodel = sum(data) * rate\nprint(mode, model)",
    "%spark.sql\nselect 1",
    "%submarine.sh\necho tidied",
    '%submarine.python(run=true, gpus="0", name=score, after=fit)\n\nprint("score of", model)',
    "%submarine.python\nraise OSError('never run')",
)


def note(path, *paragraphs, **about):
    """Write a note: each paragraph is its text, its title and text, or its fields."""
    made = []
    for number, one in enumerate(paragraphs, 1):
        told = one if isinstance(one, dict) else {}
        if not told:
            title, text = one if isinstance(one, tuple) else ("", one)
            told = {"text": text, "config": {"enabled": True}, "settings": {"params": {}}}
            told |= {"title": title} if title else {}
        made.append({"id": f"paragraph_{number}", **told})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "team/Nightly", "paragraphs": made, **about}))
    return path


@pytest.fixture
def nightly(tmp_path):
    last = {"text": NIGHTLY[-1], "config": {"enabled": False}}
    return note(tmp_path / "Nightly_2ABC.zpln", *NIGHTLY[:-1], last)


def test_paragraphs_become_nodes_and_forms_parameters(nightly):
    told = []
    flow = build_flow(nightly, None, tell=told.append)
    assert (flow.name, flow.notebook) == ("Nightly", "Nightly_2ABC.zpln")
    assert [(node.name, node.kind, node.cells) for node in flow.nodes] == [
        ("cell-3", "cell", (3,)),
        ("fit", "job", (5,)),
        ("cell-7", "cell", (7,)),
        ("score", "job", (8,)),
    ]
    assert {one.name: one.default for one in flow.parameters} == {
        "day": "2026-11-22", "rate": 0.5, "mode": "fast"}  # fmt: skip
    assert {node.name: node.follows for node in flow.nodes} == {
        "cell-3": (), "fit": ("cell-3",), "cell-7": (), "score": ("fit", "cell-7")}  # fmt: skip
    assert [cell.label for cell in flow.cells] == [
        "the note's forms", "paragraph 2", "paragraph data", "paragraph 5", "paragraph 7",
        "paragraph 8"]  # fmt: skip
    assert told == ["paragraph 6 is left out: a flow has no %spark.sql"]


def test_a_note_of_before_0_9_is_read_too(tmp_path):
    path = note(tmp_path / "2ABC" / "note.json", "print(1)", config={}, name="Old",
                defaultInterpreterGroup="python")  # fmt: skip
    assert [node.name for node in build_flow(path, None).nodes] == ["cell-1"]


def test_what_was_typed_into_a_form_last_is_its_value(tmp_path):
    text = '%python\nday = z.input("day", "x")\nprint(day)'
    path = note(tmp_path / "a.zpln", {"text": text, "settings": {"params": {"day": "y"}}})
    assert build_flow(path, None).parameters[0].default == "y"


def test_a_note_runs_as_a_flow_with_another_value(nightly, call, tmp_path):
    code, out, err = call("flow", "build", nightly, "--output", tmp_path / "f", "--run")
    assert code == 0, out + err
    assert "fit    │ fast 5.5" in out
    assert "cell-7 │ tidied" in out
    assert "score  │ score of 5.5" in out
    assert "paragraph 6 is left out" in err


def test_an_error_says_note_paragraph_and_line(call, tmp_path):
    path = note(
        tmp_path / "bad.zpln", ("The data", "%submarine.run --gpus 0\n\nx = 1\nraise OSError('no')")
    )
    code, out, err = call("flow", "build", path, "--run")
    assert code == 1
    assert "bad.zpln, paragraph The data, line 4: OSError: no" in out + err


def test_a_flow_comes_back_as_the_note_that_it_was(nightly, call, tmp_path):
    call("flow", "build", nightly, "--output", tmp_path / "f")
    back = tmp_path / "back.zpln"
    code, _, err = call("flow", "open", tmp_path / "f", "--output", back)
    assert code == 0, err
    again, once = read_notebook(back), read_notebook(nightly)
    assert [one.cell.raw for one in again.cells] == [one.cell.raw for one in once.cells]
    assert [one.cell.id for one in again.cells] == [one.cell.id for one in once.cells]
    assert [one.options for one in again.cells] == [one.options for one in once.cells]
    written = json.loads(back.read_text())["paragraphs"]
    assert [one.get("title") for one in written] == [None, "data", None, None, None]
    code, _, err = call("flow", "open", tmp_path / "f", "--output", tmp_path / "back.ipynb")
    assert code != 0
    assert "ends in .zpln" in err


@pytest.mark.parametrize(
    ("paragraphs", "where", "what", "fix"),
    [
        (["%spark\nval x = 1", "%submarine.run --gpus 0\nprint(x)"], "a.zpln, paragraph 2, line 2",
         "`x` is not defined", "paragraph 1 is left out: a flow has no %spark"),
        (["%submarine\n\njob run --gpus 1"], "a.zpln, paragraph 1, line 3", "parts", ".run"),
        (["%submarine.run --gpus 1"], "a.zpln, paragraph 1, line 1", "parts", ".run"),
        (["%submarine.python(execute=false)\nx = 1"], "a.zpln, paragraph 1, line 1", "a part", ""),
        (["%submarine.run --gpu 3\nx = 1"], "a.zpln, paragraph 1, line 1", "no option --gpu",
         "--gpus"),
        (["%submarine.python(run=true, gpu\nx = 1"], "a.zpln, paragraph 1, line 1",
         "local properties cannot be read", "name=value"),
        (["%submarine.python\n\nx = = 1"], "a.zpln, paragraph 1, line 3", "syntax", ""),
        (["%python\n\nd = z.select('d', [('a', 'b')])"], "a.zpln, paragraph 1, line 3",
         "z.select(…) is Zeppelin's own", "z.input"),
        (["%python\nif 1:\n    d = z.input('d', 'x')"], "a.zpln, paragraph 1, line 3",
         "z.input(…) is Zeppelin's own", "a line of its own"),
        (["%python\nd = z.input('d', len('x'))"], "a.zpln, paragraph 1, line 2", "z.input", ""),
        (["%python\nd = 1", "%python\nd = z.input('d', 'x')\nprint(d)"],
         "a.zpln, paragraph 2, line 2", "`d` is bound above", "another name"),
        (["%python(form=simple)\nprint('${d=1}')"], "a.zpln, paragraph 1, line 2",
         "a form within code", "name = "),
        (["%python\nd = ${d=some day}"], "a.zpln, paragraph 1, line 2", "is no literal", "quotes"),
        (["print(1)"], "a.zpln, paragraph 1, line 1", "names no interpreter", "%submarine.python"),
        ([{"text": 3}], "a.zpln", "no whole note", "export"),
    ],
)  # fmt: skip
def test_what_no_flow_can_be_is_refused_at_note_paragraph_and_line(
    tmp_path, paragraphs, where, what, fix
):
    path = note(tmp_path / "a.zpln", *paragraphs)
    with pytest.raises(SubmarineError) as caught:
        build_flow(path, None)
    assert caught.value.where == where
    assert what.lower() in caught.value.what.lower()
    assert fix in caught.value.fix
