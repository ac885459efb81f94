"""The zip that Azkaban gets: what it says, that no value can break out of it, Quartz's cron."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from submarine_engine.bundle import Cell
from submarine_engine.errors import FlowError
from submarine_engine.flows import azkaban
from submarine_engine.flows.model import Flow, Node, Parameter, Read
from submarine_engine.flows.writers import WRITERS

from tests.flows.azkaban_double import java_properties, load, resolve, split

DIGEST = "0" * 63 + "a"
CELLS = tuple(Cell(number=at, source=f"x{at} = 1", raw=f"x{at} = 1") for at in range(1, 5))
PARAMETERS = (
    Parameter(name="day", default="2026-11-22"),
    Parameter(name="no", default=(1, "a")),
)
NODES = (
    Node(name="load", kind="cell", cells=(2,), binds=("data",)),
    Node(name="fit", cells=(3,), bundle=DIGEST, retries=2, reads=(Read(name="data", node="load"),)),
    Node(name="report", cells=(4,), after=("fit",), condition="all_done"),
)


def flow_of(nodes=NODES, *, name="train", parameters=PARAMETERS):
    return Flow(
        name=name, notebook="train.ipynb", cells=CELLS, parameters=parameters,
        parameters_cell=1, schedule="0 2 * * *", nodes=nodes,
    )  # fmt: skip


FLOW = flow_of()
PLAIN = flow_of(NODES[:2])


@pytest.fixture
def folder(tmp_path):
    """Return a flow's folder with the bundle that `FLOW` names."""
    bundle = tmp_path / "bundles" / DIGEST
    (bundle / "values").mkdir(parents=True)
    (bundle / "script.py").write_text("print(1)\n")
    (bundle / "values" / "data.pkl").write_bytes(b"\x00\xff")
    (tmp_path / "modules" / "pkg").mkdir(parents=True)
    (tmp_path / "modules" / "pkg" / "own.py").write_text("x = 1\n")
    FLOW.write(tmp_path)
    return tmp_path


def words(flow, node="fit", **given):
    """Return the words of a node's command, as Azkaban makes them for execution 7."""
    job = flow.jobs[node]["config"]
    properties = {"azkaban.flow.execid": "7", **flow.config, **given, **job}
    return split(resolve(properties)["command"])


def test_the_zip_says_what_the_flow_says(folder):
    path = WRITERS["azkaban"](FLOW, folder, folder)
    (flow,) = load(path.read_bytes())
    assert flow.name == "train"
    assert flow.config["day"] == "2026-11-22"
    assert flow.config["no"] == "(1, 'a')"
    assert flow.config["failure.action"] == "finishPossible"
    assert {name: job["in"] for name, job in flow.jobs.items()} == {
        "load": [], "fit": ["load"], "report": ["fit"],
    }  # fmt: skip
    assert flow.jobs["report"]["condition"] == "all_done"
    assert flow.jobs["fit"]["config"]["retries"] == "2"
    assert int(flow.jobs["fit"]["config"]["retry.backoff"]) == 1000 * azkaban.RETRY_PAUSE
    assert words(flow) == ["submarine", "flow", "node", "flow", "fit", "--run=azkaban-7",
                           "--param=day=2026-11-22", "--param=no=(1, 'a')"]  # fmt: skip


def test_the_same_flow_gives_the_same_bytes_and_bundles_travel_as_they_are(folder):
    first = azkaban.write(FLOW, folder, folder).read_bytes()
    (folder / "bundles" / DIGEST / "script.py").touch()
    (folder / "bundles" / ("f" * 64)).mkdir()  # of a flow that was built there before
    assert azkaban.write(FLOW, folder, folder).read_bytes() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = [name for name in archive.namelist() if "bundles" in name]
        assert names == [
            f"flow/bundles/{DIGEST}/script.py",
            f"flow/bundles/{DIGEST}/values/data.pkl",
        ]
        for name in names:
            assert archive.read(name) == (folder / name.removeprefix("flow/")).read_bytes()
    assert azkaban.read(first, where="it") == FLOW


def test_flow_1_0_says_the_same(folder):
    (flow,) = load(WRITERS["azkaban-1.0"](PLAIN, folder, folder).read_bytes())
    assert flow.name == "train"
    assert {name: job["in"] for name, job in flow.jobs.items()} == {
        "load": [], "fit": ["load"], "train": ["fit"],
    }  # fmt: skip
    assert flow.jobs["train"]["type"] == "noop"
    assert words(flow)[4:6] == ["fit", "--run=azkaban-7"]
    assert azkaban.read((folder / "train-azkaban-1.0.zip").read_bytes(), where="it") == PLAIN


@pytest.mark.parametrize("named", ["fit", "load"])
def test_flow_1_0_of_a_flow_that_is_called_as_a_node(folder, named):
    (flow,) = load(azkaban.write_1(flow_of(NODES[:2], name=named), folder, folder).read_bytes())
    assert flow.name == {"fit": "fit", "load": "load-flow"}[named]
    assert flow.jobs.keys() - {flow.name} <= {"load", "fit"}


def test_flow_1_0_refuses_conditions(folder):
    with pytest.raises(FlowError, match=r"no conditions, and report has one") as caught:
        azkaban.write_1(FLOW, folder, folder)
    assert "--to azkaban" in caught.value.fix


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: not azkaban.unfit(text)
)


@given(default=TEXTS, override=TEXTS)
@example(default="it's a day", override=" --run other ' ' $ { } \\ # = : !")
@example(default="\x85\u2028\ud7ff\U0001f600", override="\t\n\r\\u0041")
@example(default="  spaces  ", override="")
def test_no_value_breaks_out_of_its_word(default, override, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "values"
    folder.mkdir(exist_ok=True)
    parameters = (Parameter(name="no", default=default),)
    flow = flow_of((Node(name="fit", cells=(3,)),), parameters=parameters)
    for write in (azkaban.write, azkaban.write_1):
        (read,) = load(write(flow, folder, folder).read_bytes())
        assert words(read)[-1] == f"--param=no={default}"
        assert words(read, no=override)[4:] == ["fit", "--run=azkaban-7", f"--param=no={override}"]


@pytest.mark.parametrize(
    ("parameter", "what"),
    [
        (Parameter(name="day", default='say "hi"'), "end the word"),
        (Parameter(name="day", default="${other}"), "evaluates"),
        (Parameter(name="day", default="$(new('java.util.Date'))"), "evaluates"),
        (Parameter(name="retries", default=1), "own use"),
        (Parameter(name="größe", default=1), "replaces no such name"),
    ],
)
def test_parameters_that_azkaban_cannot_have_are_refused(folder, parameter, what):
    with pytest.raises(FlowError, match=what) as caught:
        azkaban.write(flow_of(parameters=(parameter,)), folder, folder)
    assert f"parameter {parameter.name}" in caught.value.what
    assert caught.value.fix
    assert not list(folder.glob("*.zip"))


def test_a_bundle_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FlowError, match="not there"):
        azkaban.write(FLOW, tmp_path, tmp_path)


def test_a_link_and_what_azkaban_would_read_are_refused(folder):
    inside = folder / "bundles" / DIGEST
    (inside / "other.flow").write_text("nodes: []")
    with pytest.raises(FlowError, match=r"other.flow"):
        azkaban.write(FLOW, folder, folder)
    (inside / "other.flow").unlink()
    (inside / "link").symlink_to("/etc/passwd")
    with pytest.raises(FlowError, match="no plain file"):
        azkaban.write(FLOW, folder, folder)


def test_the_yaml_is_read_alike_by_every_reader_of_yaml(folder):
    flow = flow_of(parameters=(Parameter(name="no", default="ünï"),))
    path = azkaban.write(flow, folder, folder)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("train.flow")
    assert text.isascii()
    assert yaml.safe_load(text)["config"]["no"] == "ünï"  # the key is no truth value
    assert json.loads(zipfile.ZipFile(path).read("flow/flow.json"))["name"] == "train"


def test_properties_of_java_are_escaped():
    text = azkaban._properties({"a": "  x\\y\n=z # ü", "b": "\U0001f600"})
    assert text.isascii()
    assert java_properties(text) == {"a": "  x\\y\n=z # ü", "b": "\U0001f600"}


@pytest.mark.parametrize(
    ("cron", "quartz"),
    [
        ("0 2 * * *", "0 0 2 ? * *"),
        ("*/5 * * * *", "0 */5 * ? * *"),
        ("0 0 1,15 * *", "0 0 0 1,15 * ?"),
        ("0 0 * * 0", "0 0 0 ? * 1"),
        ("0 0 * * 7", "0 0 0 ? * 1"),
        ("0 0 * * 1-5", "0 0 0 ? * 2-6"),
        ("0 0 * * 5-7", "0 0 0 ? * 6,7,1"),
        ("0 0 * * 1-7/2", "0 0 0 ? * 2,4,6,1"),
        ("0 0 * * */2", "0 0 0 ? * 1-7/2"),
        ("0 0 * * 2/2", "0 0 0 ? * 3-7/2"),
        ("0 0 * * mon-fri,sun", "0 0 0 ? * MON-FRI,SUN"),
        ("30 9-17/2 * jan-mar 6", "0 30 9-17/2 ? jan-mar 7"),
    ],
)
def test_cron_becomes_quartz(cron, quartz):
    assert azkaban.quartz(cron) == quartz


def test_a_schedule_that_quartz_cannot_say_is_refused():
    with pytest.raises(FlowError, match="Azkaban has either"):
        azkaban.quartz("0 0 1 * 1")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no zip at all"])
def test_what_is_no_zip_of_ours_is_refused(data):
    with pytest.raises(FlowError, match="cannot be read") as caught:
        azkaban.read(data, where="project x")
    assert caught.value.where == "project x"


def test_somebody_elses_zip_is_refused():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("flow20.project", "azkaban-flow-version: 2.0")
    with pytest.raises(FlowError, match=r"no flow of Submarine's"):
        azkaban.read(packed.getvalue(), where="project x")
