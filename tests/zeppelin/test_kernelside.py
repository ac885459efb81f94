"""What a kernel of a Zeppelin session shows, and the parts that its paragraphs give."""

from __future__ import annotations

from submarine_magics.card import display as card
from submarine_zeppelin import outputs

from tests.zeppelin.noted import Paragraph, clean, home, kernel, newest, run, text

__all__ = ["home", "kernel", "run"]  # fixtures


def test_names_of_types_are_the_same_on_both_sides():
    assert outputs.JOB_TYPE == card.JOB_TYPE


def test_a_frame_is_a_table(run):
    frame = (
        "import pandas\nframe = pandas.DataFrame({'a\\tb': [1, None], 'c': ['%html <b>', 'x\\ny']})"
    )
    [found] = run(Paragraph("p", frame + "\nframe"))
    assert [message.type for message in found] == ["TABLE"]
    assert found[0].data == "a b\tc\n1.0\t %html <b>\n\tx y\n"


def test_a_long_frame_shows_its_first_rows_and_says_so(run):
    [found] = run(Paragraph("p", "import pandas\npandas.DataFrame({'n': range(5000)})"))
    assert found[0].data.count("\n") == 1001
    assert found[1].data == "the first 1,000 of 5,000 rows\n"


def test_a_frame_with_an_index_shows_it(run):
    code = "import pandas\npandas.Series([3, 4], index=['x', 'y'], name='n')"
    [found] = run(Paragraph("p", code))
    assert found[0].data == "index\tn\nx\t3\ny\t4\n"


def test_a_picture_is_a_picture(run):
    code = "import matplotlib.pyplot as plt\n%matplotlib inline\nplt.plot([1, 2])\nplt.show()"
    [found] = run(Paragraph("p", code))
    assert found[-1].type == "IMG"


INTERRUPTED = """
import os, signal
def interrupt(info):
    get_ipython().events.unregister("pre_run_cell", interrupt)
    os.kill(os.getpid(), signal.SIGINT)
get_ipython().events.register("pre_run_cell", interrupt)
"""


def test_an_interrupt_just_before_a_paragraphs_code_is_not_lost(run):
    _, found, after = run(
        Paragraph("p", INTERRUPTED), Paragraph("q", "ran = 1"), Paragraph("r", "'ran' in globals()")
    )
    assert "KeyboardInterrupt" in text(found)
    assert text(after) == "False\n"


def test_parts_come_out_of_executed_paragraphs_in_the_order_of_the_note(run, home):
    clean(run)
    main = Paragraph("m", "from model import LAYERS\nprint('layers', LAYERS)\n")
    first = Paragraph("a", "LAYERS = 1\n", title="model.py")
    second = Paragraph("b", "LAYERS += 1\n", title="model.py")
    go = Paragraph("go", "job run --gpus 0 --name parts", "submarine")
    order = ["a", "b", "m", "go"]
    run(second_first := Paragraph("b", "LAYERS = 0\n", title="model.py"), order=order)
    assert second_first
    run(first, second, order=order)
    run(main, order=["nobody", *order])  # runs in the kernel as well: there is no model.py there
    *_, found = run(go, order=order)
    assert "layers 2" in text(found), text(found)
    record, manifest, _ = newest(home)
    assert record["spec"]["notebook"] == "lab/Digits (2ABC)"
    assert record["spec"]["name"] == "parts"
    assert [span.cell for span in manifest.lines if span.file == "model.py"] == [
        "paragraph model.py",
        "paragraph model.py",
    ]
    assert {span.cell_id for span in manifest.lines} == {"a", "b", "m"}
    assert [message.type for message in found[:1]] == ["HTML"]
    assert all("widget" not in message.data for message in found if message.type == "TEXT")


def test_a_deleted_paragraph_is_no_part_any_more(run, home):
    clean(run)
    run(Paragraph("a", "print('gone')"), Paragraph("b", "print('stays')"))
    [found] = run(Paragraph("go", "job run --gpus 0", "submarine"), order=["b", "go"])
    assert "stays" in text(found)
    assert "gone" not in text(found)


def test_a_paragraph_that_does_not_parse_is_not_left_out_in_silence(run):
    clean(run)
    order = ["a", "b", "go"]
    run(Paragraph("a", "x = 1"), order=order)
    run(Paragraph("b", "x = = 1", title="broken.py"), order=order)
    go = Paragraph("go", "job run --gpus 0", "submarine")
    [found] = run(go, order=order)
    assert "paragraph broken.py: no Python" in text(found)
    run(Paragraph("b", "print('mended', x)"), order=order)
    [found] = run(go, order=order)
    assert "mended 1" in text(found)


def test_what_is_not_executed_is_a_part_all_the_same(run):
    clean(run)
    only = Paragraph(
        "a", "SIZE = 7\nnever_run = 1", title="sizes.py", properties={"execute": "false"}
    )
    main = (
        "try:\n    from sizes import SIZE\n    print('size', SIZE)\nexcept ImportError:\n    pass"
    )
    *_, here, _, found = run(
        only, Paragraph("b", main), Paragraph("c", "'never_run' in globals()"),
        Paragraph("d", "", "submarine"), order=["a", "b", "c", "d"],
    ) + run(Paragraph("go", "job run --gpus 0", "submarine"), order=["a", "b", "go"])  # fmt: skip
    assert "False" in text(here)
    assert "size 7" in text(found)


def test_a_part_that_imports_another_is_told_how_it_gets_there(run):
    clean(run)
    order = ["a", "b"]
    _, found = run(
        Paragraph("a", "SIZE = 7", title="sizes.py"),
        Paragraph("b", "from sizes import SIZE"),
        order=order,
    )
    assert "execute=false" in text(found)
    [found] = run(Paragraph("b", "import nowhere"), order=order)
    assert "execute=false" not in text(found)


def test_what_a_sweep_found_is_a_table_that_the_page_sorts(run):
    code = """
from submarine_engine.sweeps.found import Found

class Known(Found):
    def __init__(self): pass
    def __repr__(self): return "<sweep train: 2 complete>"
    def table(self, sort=""): return ("trial", "loss"), [("0", "0.5"), ("1", "0.25")]

Known()
"""
    [(table, below)] = run(Paragraph("p", code))
    assert (table.type, table.data) == ("TABLE", "trial\tloss\n0\t0.5\n1\t0.25\n")
    assert "2 complete" in below.data
