"""A kernel of a Zeppelin session: real, driven by what the interpreter would send."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from submarine_engine.bundle.model import Manifest
from submarine_engine.history import JobPaths, job_ids, read_json
from submarine_magics.card import mime as card
from submarine_zeppelin import mime
from submarine_zeppelin.commands import metadata, translate
from submarine_zeppelin.outputs import Outputs

from tests.kernels import Driven


@dataclass
class Paragraph:
    id: str
    text: str
    interpreter: str = "python"
    title: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    note_id: str = "2ABC"
    note_name: str = "lab/Digits"
    user: str = "anonymous"


class Nobody:
    def append(self, index, text):
        pass

    def update(self, index, type, data):  # noqa: A002 - as in Sink
        pass

    def update_all(self, messages):
        pass


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("zeppelin")


@pytest.fixture(scope="module")
def kernel(home):
    environment = {"IPYTHONDIR": str(home / "ipython"), "SUBMARINE_CELL_OUTPUT_LIMIT": "100000"}
    kernel = Driven(str(home), "ipykernel_launcher", environment)
    ran = kernel.run("%load_ext submarine_zeppelin.kernelside")
    assert ran.reply["status"] == "ok", ran.text
    yield kernel
    kernel.stop()


@pytest.fixture
def run(kernel):
    """Run paragraphs one after another; each gives its messages."""

    def run(*paragraphs, order=()):
        found = []
        for paragraph in paragraphs:
            action = translate(paragraph, {})
            outputs = Outputs(Nobody(), prefixes=action.prefixes)
            for line in action.say:
                outputs.say(line)
            ids = order or [one.id for one in paragraphs]
            sent = kernel.send(action.code, metadata(action, paragraph, ids))
            for message in kernel.collect(sent).messages:
                content = message["content"]
                display_id = content.get("transient", {}).get("display_id")
                if message["msg_type"] == "stream":
                    outputs.stream(content["name"], content["text"])
                elif message["msg_type"] in ("display_data", "execute_result"):
                    outputs.display(content["data"], display_id)
                elif message["msg_type"] == "update_display_data":
                    outputs.update(content["data"], display_id)
                elif message["msg_type"] == "error":
                    outputs.error(content["ename"], content["evalue"], content["traceback"])
            found.append(outputs.messages())
        return found

    return run


def text(messages):
    return "".join(message.data for message in messages if message.type == "TEXT")


def clean(run):
    run(Paragraph("clean", "CLEAN_RUNTIME_CACHE", "submarine"))


def newest(home):
    """Return the record, the manifest and the script of the newest job."""
    found = [JobPaths(home, job_id) for job_id in job_ids(home)]
    paths = max(found, key=lambda paths: read_json(paths.record)["created"])
    manifest = Manifest.from_json(json.loads((paths.bundle / "manifest.json").read_bytes()))
    return read_json(paths.record), manifest, (paths.bundle / manifest.entry).read_text()


def test_names_of_types_are_the_same_on_both_sides():
    assert mime.JOB_TYPE == card.JOB_TYPE


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


def test_a_job_of_the_paragraph_itself_with_card_text_and_value(run, home):
    define, job, use = run(
        Paragraph(
            "def", "def train(n):\n    print('%html <script>alert(1)</script>')\n    return n * 2"
        ),
        Paragraph("job", "--gpus 0 --name twice\nresult = train(21)", "run"),
        Paragraph("use", "result"),
    )
    assert define == []
    assert job[0].type == "HTML"
    assert "twice" in job[0].data
    assert "<script" not in job[0].data
    assert [message.type for message in job].count("HTML") == 1
    assert "%html <script>alert(1)</script>\n" in text(job)
    assert text(use).strip() == "42"
    record, manifest, script = newest(home)
    assert record["spec"]["notebook"] == "lab/Digits (2ABC)"
    assert "paragraph 1" in {span.cell for span in manifest.lines}
    assert "paragraph 1" in script


def test_an_unnamed_job_is_called_after_the_note(run, home):
    run(Paragraph("job", "1 + 1", "run", properties={"gpus": "0"}))
    record, _, _ = newest(home)
    assert record["spec"]["name"] == "Digits"


def test_an_error_of_a_job_names_the_paragraph(run):
    _, found = run(
        Paragraph("def", "def train():\n    raise ValueError('%html <b>no</b>')", title="Train it"),
        Paragraph("job", "--gpus 0\ntrain()", "run", title="Go"),
    )
    assert "paragraph Train it" in text(found)
    assert "ValueError: %html <b>no</b>" in text(found)
    assert "In [" not in text(found)


def test_a_log_that_a_plain_paragraph_asks_for_is_text(run):
    code = "--gpus 0 --name evil\nprint('%html <script>theirs</script>')"
    show = "print('%html <b>mine</b>')\n%submarine job logs evil"
    _, found = run(Paragraph("a", code, "run"), Paragraph("b", show, properties={"part": "false"}))
    assert [(message.type, message.data) for message in found] == [
        ("HTML", "<b>mine</b>\n"),
        ("TEXT", "%html <script>theirs</script>\n"),
    ]


def test_a_long_log_keeps_to_the_limit_and_names_where_all_of_it_is(run):
    code = "--gpus 0\nfor n in range(20000):\n    print(n, 'x' * 1000)"
    [found] = run(Paragraph("job", code, "run"))
    shown = text(found)
    assert len(shown) < 110_000
    assert "full log: http://127.0.0.1" in shown
    assert "\n19999 " in shown


def test_two_users_see_only_their_own_jobs(run, home):
    run(Paragraph("a", "--gpus 0 --name of-ada\n1", "run", user="ada"))
    run(Paragraph("b", "--gpus 0 --name of-bob\n1", "run", user="bob"))
    listing = "job list"
    [adas] = run(Paragraph("l", listing, "submarine", user="ada"))
    [bobs] = run(Paragraph("l", listing, "submarine", user="bob"))
    assert adas[0].type == bobs[0].type == "TABLE"
    assert "of-ada" in adas[0].data
    assert "of-ada" not in bobs[0].data
    [denied] = run(Paragraph("l", "job show of-ada", "submarine", user="bob"))
    assert "no job 'of-ada' is on record" in text(denied)
    [everything] = run(Paragraph("l", listing, "submarine"))
    assert "of-ada" in everything[0].data


def test_commands_show_each_what_they_return(run):
    [found] = run(Paragraph("p", "gpus\nhelp job run", "submarine"))
    assert [message.type for message in found] == ["TABLE", "TEXT"]
    assert "--worker_launch_cmd" in text(found)


def test_the_dashboard_shows_the_jobs_of_this_note(run):
    note = {"note_name": "With one job"}
    run(Paragraph("a", "--gpus 0 --name not-here\n1", "run"))
    run(Paragraph("a", "--gpus 0 --name here\n1", "run", **note))
    [found] = run(Paragraph("p", "DASHBOARD", "submarine", **note))
    tables = [message.data for message in found if message.type == "TABLE"]
    assert [row.split("\t")[1] for row in tables[0].splitlines()] == ["NAME", "here"]
    assert tables[1].startswith("GPU\t")


def test_stopping_the_jobs_of_a_note_that_has_none(run):
    [found] = run(Paragraph("p", "JOB_STOP", "submarine", note_name="Without any"))
    assert "no job of this note is running" in text(found)


def test_stopping_the_jobs_of_this_note_alone(run):
    other = Paragraph("o", "import time\ntime.sleep(600)", "run", note_id="2DEF")
    other.properties = {"gpus": "0", "detach": "true", "name": "other"}
    mine = Paragraph("o", other.text, "run", properties={**other.properties, "name": "mine"})
    run(other)
    run(mine)
    [found] = run(Paragraph("p", "JOB_STOP", "submarine"))
    assert text(found).count("is being cancelled") == 1
    run(Paragraph("w", "job wait mine", "submarine"))
    [listing] = run(Paragraph("l", "job list", "submarine"))
    states = {row.split("\t")[1]: row.split("\t")[2] for row in listing[0].data.split("\n") if row}
    assert states["mine"] == "cancelled"
    assert states["other"] != "cancelled"
    run(Paragraph("k", "job kill other", "submarine"))


def test_shell_in_the_process_of_the_note(run):
    [found] = run(Paragraph("p", "echo hello\necho %html '<b>'", "sh"))
    assert found[-1].type == "TEXT"
    assert text(found) == "hello\n%html <b>\n"
    [found] = run(Paragraph("p", "exit 3", "sh"))
    assert "3" in text(found)


def test_a_heading_cannot_break_the_script(run, home):
    evil = "x\nimport os; os.abort()\n\x1b[31m"
    run(
        Paragraph("def", "def train():\n    return 1", title=evil),
        Paragraph("job", "--gpus 0\ntrain()", "run", title=evil),
    )
    _, _, script = newest(home)
    assert "\nimport os" not in script
