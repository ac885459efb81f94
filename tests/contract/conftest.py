"""The clusters that the contract is tested on; `submarine_engine.testing` has the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from submarine_engine.testing import Place
from submarine_engine.testing.place import PATIENCE

from tests.jobs import end_processes_of

LONG_ON_YARN = {
    "test_a_job_is_begun_again_until_its_code_succeeds",
    "test_code_runs_once_unless_it_is_said_otherwise",
    "test_each_role_has_its_place",
    "test_each_gpu_of_a_task_may_be_a_rank",
    "test_a_command_is_told_by_its_variables",
    "test_alone_a_task_is_the_first_of_one",
    "test_leaving_by_sys_exit_0_is_a_success",
    "test_any_process_opens_a_job_by_its_id_and_name",
    "test_a_job_that_had_returned_before_is_a_success",
    "test_who_takes_long_steps_has_longer_unless_told",
    "test_a_job_that_waits_has_no_model_yet",
    "test_a_job_that_waits_has_no_stacks_yet",
    "test_threads_are_told_and_two_may_ask_at_a_time",
    "test_what_the_function_raises_comes_to_who_asked_at_cell_and_line",
    "test_a_job_never_grows_while_another_one_waits",
    "test_a_job_is_run_once_more_from_the_start",
    "test_a_job_that_failed_is_run_again_as_a_new_one",
    "test_what_is_cancelled_is_not_begun_again",
    "test_where_no_attempt_is_left_the_last_error_counts",
    "test_at_its_time_limit_a_job_is_asked_to_end",
    "test_a_job_whose_gpu_does_nothing_is_saved_and_ended",
    "test_what_the_processes_of_a_task_use_is_told_while_it_runs",
    "test_an_elastic_job_has_the_most_where_there_is_room",
    "test_code_that_handles_the_request_goes_on_with_more_all_the_same",
    "test_a_job_that_keeps_no_checkpoint_never_grows",
    "test_a_function_that_hangs_is_told_after_patience_and_harms_nothing",
    "test_a_task_in_native_code_says_where_it_is_and_goes_on",
    "test_the_value_of_each_task_comes_home_when_it_is_asked_for",
    "test_each_task_of_several_has_frames_of_its_own",
    "test_one_that_handles_the_interrupt_has_succeeded",
    "test_ranks_leave_files_of_the_same_name_apart",
    "test_only_the_last_attempt_counts",
}
"""What the driver decides alike for every cluster, and `hosts` holds.

One YARN cluster runs its tests one after the other, and each starts JVMs or containers.
"""


SHORT_ON_SLURM = {
    "test_a_job_tells_its_whole_life_in_order",
    "test_value_and_variables_come_home",
    "test_the_account_adds_up_while_jobs_come_and_go",
    "test_a_queued_job_is_cancelled_without_ever_holding_a_gpu",
    "test_workers_begin_together_and_find_each_other",
}
"""One of each kind, about ten seconds together; all others are for `make test-long`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to `make test-long` what is slow on a real cluster and nothing of its own."""
    for item in items:
        name = item.callspec.params.get("cluster") if hasattr(item, "callspec") else None
        on_yarn = name == "yarn" and item.originalname in LONG_ON_YARN
        if on_yarn or (name == "slurm" and item.originalname not in SHORT_ON_SLURM):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def home_of_hosts(tmp_path_factory):
    """Give a home for jobs on hosts: one keeper serves many tests."""
    home = tmp_path_factory.mktemp("hosts-home")
    yield home
    left = end_processes_of(home, PATIENCE)
    assert not left, f"left running: {left}"


@pytest.fixture
def hosts_home(home_of_hosts, tmp_path, monkeypatch):
    """Have the tests' own backend installed, as a package outside the project would be."""
    plugin = tmp_path / "site"
    use_backend(monkeypatch, plugin, "hosts = submarine_hosts:HostsBackend")
    monkeypatch.setenv("SUBMARINE_HOME", str(home_of_hosts))
    return home_of_hosts


def use_backend(monkeypatch, site, entry_point, options=""):
    """Install a backend of `tests/clusters` for this process and those that it starts."""
    info = site / "submarine_hosts-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: submarine-hosts\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        f"[submarine.clusters]\n{entry_point}\n[submarine.options]\n{options}\n"
    )
    paths = [str(site), str(Path(__file__).parents[1] / "clusters")]
    for path in paths:
        monkeypatch.syspath_prepend(path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.fixture(
    params=[
        "local",
        pytest.param("hosts", marks=pytest.mark.service),  # `make check` has tests/clusters
        "slurm",
        "yarn",
    ]
)
def cluster(request, tmp_path, monkeypatch):
    """Give a cluster with four GPUs; afterwards no job of the test is left on it."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    home = tmp_path / "home"
    if request.param != "local":
        home = request.getfixturevalue(
            {"yarn": "shared_home", "hosts": "hosts_home", "slurm": "slurm_home"}[request.param]
        )
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "4")
    monkeypatch.setenv("SUBMARINE_GRACE", "120")  # a job that is asked to end is given time to
    modes = ("auto", "cold") if request.param == "yarn" else ("auto",)
    variants = [{"mode": mode} for mode in modes]
    place = Place(request.param, home, folder, variants=variants)
    yield place
    place.clean_up()
    left = end_processes_of(home, PATIENCE) if request.param == "local" else {}
    assert not left, f"left running: {left}"
