"""A note that a real Zeppelin has exported becomes a flow, and comes back into Zeppelin."""

from __future__ import annotations

import json

from submarine_engine.flows.build import build_flow
from submarine_engine.flows.reopen import write_notebook

from tests.zeppelin.rest import Client

PARAGRAPHS = (
    ("", "%md\n# A note"),
    ("The data", '%submarine.python\n\nday = z.input("day", "2026-11-22")\nrows = [len(day)]'),
    ("", "%submarine.run --gpus ${gpus=0} --name fit\nprint(sum(rows))"),
)


def test_an_exported_note_is_a_flow_and_is_imported_again(zeppelin, tmp_path):
    client = Client(zeppelin.url)
    made = client.note("team/Nightly", *PARAGRAPHS)
    path = tmp_path / "Nightly.zpln"
    path.write_text(client.call("GET", f"/notebook/export/{made.id}"))
    flow = build_flow(path, tmp_path / "flow")
    assert flow.name == "Nightly"
    assert [(node.name, node.follows) for node in flow.nodes] == [
        ("cell-2", ()),
        ("fit", ("cell-2",)),
    ]
    assert [one.name for one in flow.parameters] == ["day"]
    assert flow.cells[1].label == "paragraph The data"
    again = client.import_note(write_notebook(flow, tmp_path / "again.zpln").read_text())
    texts = [again.paragraph(number)["text"] for number in range(len(again.ids))]
    assert texts == [text for _, text in PARAGRAPHS[1:]]
    assert json.loads(path.read_text())["paragraphs"][1]["title"] == "The data"
    made.delete()
    again.delete()
