"""What is read of the files of metrics: by people in lines, by programs, by Prometheus."""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from submarine_engine.history import TaskPaths
from submarine_engine.metrics import (
    JobMetrics,
    blocks,
    open_metrics,
    read_reported,
    read_used,
    reported_lines,
    usage_rows,
)

USED = """\
{"at": 100, "rows": 2, "cpu": [0.5, 1, 1.5], "gpu0": [0, 50, 100]}
{"at": 102, "cpu": 2.5, "memory": 3000000000, "gpu0": 97, "gpu0_memory": 40000000000, "gpu1": 3}
"""
REPORTED = """\
{"at": 100, "step": 0, "loss": 2, "accuracy": 0.5}
{"at": 101, "step": 1, "loss": "nan", "bad\\nname": 3}
{"at": 102, "step": 2, "loss \\"x\\"": 1e300}
"""


@pytest.fixture
def found(tmp_path):
    files = TaskPaths(tmp_path)
    files.metrics.write_text(USED)
    files.reported.write_text(REPORTED)
    return JobMetrics({"worker-0": read_used(files)}, {"worker-0": read_reported(files)})


def test_prometheus_parses_it_whatever_names_and_numbers_there_are(found):
    text = open_metrics([("20250101-000000-abcde", 'a "b"\\\nc', found)])
    families = {one.name: one for one in text_string_to_metric_families(text)}
    samples = {
        (name, one.labels.get("gpu") or one.labels.get("metric")): one
        for name, family in families.items()
        for one in family.samples
    }
    assert samples["submarine_task_gpu_busy_ratio", "0"].value == 0.97
    assert samples["submarine_task_gpu_memory_bytes", "0"].value == 40e9
    assert samples["submarine_task_memory_bytes", None].value == 3e9
    assert math.isnan(samples["submarine_reported", "loss"].value)
    assert samples["submarine_reported", 'loss "x"'].value == 1e300
    assert samples["submarine_reported_step", None].value == 2
    labels = samples["submarine_task_cpu_cores", None].labels
    assert labels == {"job": "20250101-000000-abcde", "name": 'a "b"\\\nc', "task": "worker-0"}
    assert not any("bad" in str(key) for key in samples)


def test_a_line_of_blocks_shows_extremes_gaps_and_constants():
    assert blocks([0, 50, 100], most=100) == "▁▅█"
    assert blocks([1, math.nan, 3]) == "▁ █"
    assert blocks([7, 7]) == "▁▁"
    assert blocks([]) == ""
    spike = [0.0] * 999
    spike[500] = 1
    assert len(blocks(spike, width=20)) <= 20
    assert "█" in blocks(spike, width=20)
    assert blocks([math.inf, -math.inf, math.nan]) == "   "


def test_what_a_task_used_last_is_a_row_and_what_is_reported_a_line(found):
    ((task, cpu, memory, gpu, held, *_),) = usage_rows(found.used)
    assert (task, cpu, memory, gpu, held) == (
        "worker-0", "2.50", "3.0 GB", "97 %, 3 % ▅▅", "40 GB"
    )  # fmt: skip
    assert reported_lines(found.reported)[:2] == [
        "loss  ▁   nan (step 1)",
        "accuracy  ▁  0.5 (step 0)",
    ]


def test_what_is_no_file_has_no_rows(tmp_path):
    files = TaskPaths(tmp_path)
    assert read_used(files) == []
    files.metrics.mkdir()
    (tmp_path / "elsewhere").write_text(USED)
    files.reported.symlink_to(tmp_path / "elsewhere")
    assert read_used(files) == read_reported(files) == []
