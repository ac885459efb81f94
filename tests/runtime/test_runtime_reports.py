"""What training code reports of a trial, and how the trial ends by it."""

import subprocess
import sys
import types
from fractions import Fraction

import pytest
from submarine_runtime import lean, report, reports


class Ended(BaseException):
    """As a worker has it."""


class Running:
    """A call that keeps what it reports, and is answered as a test says."""

    def __init__(self):
        self.sent = []
        self.answer = ""

    def report(self, said):
        self.sent.append(said)

    def word(self):
        return self.answer


@pytest.fixture
def trial(monkeypatch):
    running = Running()
    worker = types.SimpleNamespace(current=running, Ended=Ended)
    monkeypatch.setitem(sys.modules, "submarine_runtime.worker", worker)
    reports.Last.forget()
    yield running
    reports.Last.forget()


def test_reports_are_sent_as_numbers(trial):
    np = pytest.importorskip("numpy")
    report(np.int64(3), loss=np.float32(0.5), step=Fraction(1, 4))
    assert trial.sent == [{"step": 3, "values": {"loss": 0.5, "step": 0.25}, "keeps": False}]
    assert {type(value) for value in trial.sent[0]["values"].values()} == {float}
    assert reports.Last.values == {"loss": 0.5, "step": 0.25}


@pytest.mark.parametrize(
    ("step", "values", "kind"),
    [
        (0, {}, TypeError),
        ("1", {"loss": 1}, TypeError),
        (True, {"loss": 1}, TypeError),
        (1.5, {"loss": 1}, TypeError),
        (-1, {"loss": 1}, ValueError),
        ({"loss": 0.1}, {}, TypeError),
        (0.1, {"loss": 1}, TypeError),
        (None, {}, TypeError),
        (None, {"step": 3}, TypeError),
        (None, {"step": "3", "loss": 1}, TypeError),
        (0, {"loss": "0.1"}, TypeError),
        (0, {"loss": None}, TypeError),
        (0, {"loss": True}, TypeError),
        (0, {"loss": [1, 2]}, TypeError),
        (0, {"x" * 101: 1}, ValueError),
        (0, {f"v{i}": 1 for i in range(101)}, ValueError),
    ],
)
def test_what_is_no_report_is_refused_in_a_trial_and_outside(
    trial, monkeypatch, step, values, kind
):
    with pytest.raises(kind, match="report"):
        report(step, **values)
    monkeypatch.delitem(sys.modules, "submarine_runtime.worker")
    with pytest.raises(kind, match="report"):
        report(step, **values)
    assert not trial.sent


def test_without_a_step_it_is_the_one_after_the_last(trial):
    report(loss=1)
    report(loss=1)
    report(7, loss=1)
    report(loss=1)
    report(step=9, loss=1)
    assert [said["step"] for said in trial.sent] == [0, 1, 7, 8, 9]
    assert reports.Last.values == {"loss": 1}


def test_words_say_how_it_is_written():
    with pytest.raises(TypeError, match=r"write report\(epoch, \*\*\{'loss': 0.1\}\)"):
        report({"loss": 0.1})  # as others have it
    with pytest.raises(TypeError, match=r"write report\(epoch, loss=0.12\)"):
        report(0.1, step=3)
    with pytest.raises(TypeError, match=r"says nothing: write report\(5, loss=0.12\)"):
        report(5)


def test_a_checkpoint_of_the_code_s_own_is_something_to_go_on_from(trial, tmp_path, monkeypatch):
    folder = tmp_path / "trial-0"
    for path in (str(folder), f"file://{folder}"):
        monkeypatch.setenv("SUBMARINE_CHECKPOINT_PATH", path)
        report(loss=1)
        folder.mkdir(exist_ok=True)
        report(loss=1)
        (folder / "model.keras").touch()
        report(loss=1)
        (folder / "model.keras").unlink()
    monkeypatch.setenv("SUBMARINE_CHECKPOINT_PATH", "hdfs:///there")
    report(loss=1)
    assert [said["keeps"] for said in trial.sent] == [False, False, True] * 2 + [False]


def test_what_is_not_finite_is_sent_as_text_that_json_can_hold(trial):
    report(0, loss=float("nan"), top=float("inf"))
    assert trial.sent[0]["values"] == {"loss": "nan", "top": "inf"}
    assert lean.loads(lean.dumps(trial.sent[0])) == trial.sent[0]


@pytest.mark.parametrize("text", ['{"a": 1} rubbish', '{"a": 1}{"a": 2}', "1 2", "[]]"])
def test_what_has_more_after_its_json_says_nothing(text):
    with pytest.raises(ValueError, match="there is more after the JSON"):
        lean.loads(text)
    assert lean.loads(' {"a": 1}\r\n') == {"a": 1}


@pytest.mark.parametrize("word", ["stop", "pause"])
def test_a_trial_that_is_asked_to_end_is_not_kept_by_except_exception(trial, word):
    cleaned = []
    trial.answer = word

    def train():
        try:
            report(0, loss=1)
        except Exception:  # noqa: BLE001 - as people write it
            pytest.fail("swallowed")
        finally:
            cleaned.append(True)

    with pytest.raises(Ended, match=word):
        train()
    assert cleaned
    assert len(trial.sent) == 1


def test_a_trial_that_keeps_checkpoints_comes_to_the_end_of_its_step_to_pause(
    trial, tmp_path, monkeypatch
):
    from submarine_runtime import job

    monkeypatch.setenv("SUBMARINE_CHECKPOINT_PATH", str(tmp_path))
    monkeypatch.setattr("submarine_runtime.checkpoints._begun", 0)
    done = []
    state = {"weight": 0}

    def train():
        for step in job.steps(5, state, every=1000):
            if step == 2:
                trial.answer = "pause"
            report(step, loss=1)
            report(step, loss=1)  # also where it reports more than once
            state["weight"] += 1
            done.append(step)

    with pytest.raises(KeyboardInterrupt):
        train()
    assert trial.sent[0]["keeps"]
    assert reports.Last.paused
    trial.answer = ""
    monkeypatch.setattr("submarine_runtime.checkpoints._begun", 0)
    monkeypatch.setattr(reports.Last, "paused", False)
    train_again = list(job.steps(5, state))
    assert done + train_again == [0, 1, 2, 3, 4]


def test_outside_a_trial_nothing_happens():
    report(0, loss=1.0)
    assert not reports.in_trial()


def test_nothing_of_it_is_loaded_before_it_is_asked_for():
    code = (
        "import sys, submarine_runtime; before = 'submarine_runtime.reports' in sys.modules;"
        "from submarine_runtime import report; report(1, loss=1); sys.exit(before)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["keras", "lightning", "transformers", "xgboost"])
def test_a_callback_without_its_package_names_it(name, monkeypatch):
    for module in (
        "keras.callbacks",
        "tf_keras.callbacks",
        "tensorflow.keras.callbacks",
        "lightning.pytorch",
        "pytorch_lightning",
        "transformers",
        "xgboost.callback",
    ):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    with pytest.raises(ImportError, match=f"{name} is not installed"):
        getattr(reports, name)()
