"""What TensorBoard's HParams shows of a sweep, read back by TensorBoard's own code."""

import math
import sys

import pytest
from submarine_engine.sweeps.hparams import HParams
from submarine_engine.sweeps.study import TrialResult

from tests.sweeps.programs import run_program


def shown(folder):
    """Return what TensorBoard has of a log directory: the parameters, the metrics and the end."""
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.plugins.hparams import metadata

    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(folder))
    multiplexer.Reload()
    found = {}
    for run in sorted(multiplexer.Runs()):
        content = multiplexer.SummaryMetadata
        start, end = (
            parse(content(run, tag).plugin_data.content)
            for tag, parse in (
                (metadata.SESSION_START_INFO_TAG, metadata.parse_session_start_info_plugin_data),
                (metadata.SESSION_END_INFO_TAG, metadata.parse_session_end_info_plugin_data),
            )
        )
        kinds = {"number_value", "bool_value", "string_value"}
        params = {
            name: getattr(value, next(kind for kind in kinds if value.HasField(kind)))
            for name, value in start.hparams.items()
        }
        tags = [tag for tag in multiplexer.Runs()[run]["tensors"] if "_hparams_" not in tag]
        points = {
            tag: [
                (point.step, round(float(point.tensor_proto.float_val[0]), 6))
                for point in multiplexer.Tensors(run, tag)
            ]
            for tag in tags
        }
        found[run] = (params, points, end.status)
    return found


def test_a_trial_has_its_parameters_its_curve_and_its_end(tmp_path):
    folder = tmp_path / "logdir"
    folder.mkdir()
    params = {"rate": 0.5, "units": 32, "flag": True, "kind": "0: <Net>", "none": None}
    trials = [
        TrialResult(0, "complete", params, (0.25,), seconds=2.0, reports={0: 1.0, 3: 0.5}),
        TrialResult(1, "pruned", {"rate": 1.0}, (), reports={0: 4.0}),
        TrialResult(2, "failed", {"rate": 1.5}, (), error="raised ValueError"),
        TrialResult(3, "complete", {"rate": 2.0}, (0.5,), reports={0: 0.5}),
        TrialResult(4, "complete", {"rate": 2.5}, (1.0,), reports=dict.fromkeys(range(5000), 1.0)),
    ]
    written = HParams(folder, ["loss"])
    for told in trials:
        written.ended(told)
    HParams(folder, ["loss"]).ended(trials[0])  # who takes over
    found = shown(folder)
    assert found["trial-0"] == (
        {"rate": 0.5, "units": 32.0, "flag": True, "kind": "0: <Net>", "none": "None"},
        {"loss": [(0, 1.0), (3, 0.5), (4, 0.25)]},
        1,
    )
    assert found["trial-1"][1:] == ({"loss": [(0, 4.0)]}, 1)
    assert found["trial-2"][1:] == ({}, 2)
    assert found["trial-3"][1:] == ({"loss": [(0, 0.5)]}, 1)
    assert len(list(folder.glob("trial-0/*"))) == 1
    assert (folder / "trial-4" / "events").parent.stat().st_mode & 0o777 == 0o700
    for path in folder.glob("*/*"):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size < 100_000


def test_several_objectives_are_several_metrics(tmp_path):
    HParams(tmp_path, ["loss", "size"]).ended(TrialResult(0, "complete", {"x": 1}, (0.5, 3.0)))
    assert shown(tmp_path)["trial-0"][1] == {"loss": [(0, 0.5)], "size": [(0, 3.0)]}


@pytest.mark.parametrize("problem", ["nothing", "package", "disk"])
def test_a_sweep_goes_on_without_it(tmp_path, monkeypatch, problem):
    folder = None if problem == "nothing" else tmp_path / "logdir"
    if problem == "package":
        monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
        folder.mkdir()
    hparams = HParams(folder, ["loss"])
    hparams.ended(TrialResult(0, "complete", {"x": 1}, (0.5,), reports={0: math.nan}))
    assert not list(tmp_path.glob("logdir/*"))


def test_a_sweep_s_job_has_its_trials_for_tensorboard(tmp_path):
    told, _ = run_program(
        tmp_path,
        """
        found = search(train, {"rate": [0.1, 0.01], "units": [32]}, trials=2, sampler="grid")
        values = {f"trial-{t.number}": [t.params["rate"], t.value] for t in found.trials}
        print(json.dumps([found.job.id, values, os.environ["SUBMARINE_HOME"]]))
        """,
    )
    job, values, home = told
    found = shown(f"{home}/jobs/{job}/tasks/worker-0/logdir")
    assert {
        run: [params["rate"], points["loss"][-1][1]] for run, (params, points, _) in found.items()
    } == {run: [rate, pytest.approx(value, abs=1e-5)] for run, (rate, value) in values.items()}
