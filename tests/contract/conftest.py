"""The clusters that the contract is tested on; `submarine_engine.testing` has the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from submarine_engine.testing import Place
from submarine_engine.testing.place import PATIENCE

from tests.jobs import end_processes_of

SHORT_ON_SLURM = {
    "test_a_job_tells_its_whole_life_in_order",
    "test_value_and_variables_come_home",
    "test_the_account_adds_up_while_jobs_come_and_go",
    "test_a_queued_job_is_cancelled_without_ever_holding_a_gpu",
    "test_workers_begin_together_and_find_each_other",
}
"""One of each kind, about ten seconds together."""

SHORT_ELSEWHERE = SHORT_ON_SLURM | {
    "test_a_cancel_from_another_process_is_heard",
    "test_a_failure_is_raised_at_cell_and_line",
    "test_a_job_that_is_not_there",
    "test_a_result_of_many_megabytes_comes_home_whole",
    "test_a_secret_reaches_the_job_and_nothing_that_is_kept_or_shown",
    "test_a_task_that_cannot_begin_keeps_no_other_waiting",
    "test_all_of_a_jobs_gpus_or_none",
    "test_an_end_without_a_result_says_why",
    "test_children_that_outlive_the_job_are_ended_with_it",
    "test_displays_come_while_the_job_runs_and_in_order_for_a_later_reader",
    "test_every_byte_comes_once_from_every_cursor",
    "test_lines_arrive_while_the_job_runs_to_two_readers_alike",
    "test_several_tasks_get_all_of_their_gpus_or_none",
    "test_the_frames_of_a_failed_job_are_opened_afterwards",
    "test_the_jobs_own_function_saves_while_it_trains",
    "test_the_next_attempt_goes_on_from_the_last_checkpoint",
    "test_the_record_is_whole_and_the_owners_alone",
    "test_what_a_job_leaves_comes_home_after_a_failure_too",
    "test_what_cannot_be_is_refused_with_a_way_out",
    "test_who_comes_first_is_served_first",
    "test_who_failed_by_itself_speaks_though_others_lost_it_sooner",
}
"""What a cluster may do in its own way. All else the driver decides alike, and `local` holds it."""

HELD_ON_YARN = {
    "test_a_cancel_from_another_process_is_heard",  # tests/server/test_server_yarn.py
    "test_workers_begin_together_and_find_each_other",  # gangs that wait, that fail
}
"""What `make test` asks of YARN elsewhere, too."""

SHORT: dict[str, set[str]] = {
    "hosts": SHORT_ELSEWHERE,
    "kubernetes": set(),  # it is brought up for `make test-long` alone
    "secure_yarn": set(),  # the same cluster but for a ticket: tests/yarn/secure has what differs
    "slurm": SHORT_ON_SLURM,
    "yarn": SHORT_ELSEWHERE - HELD_ON_YARN,
}
"""What `make test` asks of each cluster; of `local` it asks all, and `make test-long` of each."""


HOMES = {
    "hosts": "hosts_home",
    "kubernetes": "kubernetes_home",
    "secure_yarn": "secure_home",
    "slurm": "slurm_home",
    "yarn": "shared_home",
}
"""The fixture that gives a cluster's home; on the local one each test has its own."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to `make test-long` what is slow on a real cluster and nothing of its own."""
    for item in items:
        name = item.callspec.params.get("cluster") if hasattr(item, "callspec") else None
        if name in SHORT and item.originalname not in SHORT[name]:
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
        "secure_yarn",
        "slurm",
        "yarn",
        "kubernetes",
    ]
)
def cluster(request, tmp_path, monkeypatch):
    """Give a cluster with four GPUs; afterwards no job of the test is left on it."""
    folder = tmp_path / "notebooks"
    if request.param == "kubernetes":
        folder = request.getfixturevalue("kubernetes_folder")
    else:
        folder.mkdir()
    home = tmp_path / "home"
    if request.param != "local":
        home = request.getfixturevalue(HOMES[request.param])
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "4")
    monkeypatch.setenv("SUBMARINE_GRACE", "120")  # a job that is asked to end is given time to
    name = request.param.removeprefix("secure_")
    modes = ("auto", "cold") if name == "yarn" else ("auto",)
    variants = [{"mode": mode} for mode in modes]
    largest = 2 if request.param == "slurm" else None  # of two nodes: gangs go over both
    place = Place(name, home, folder, variants=variants, largest=largest)
    yield place
    place.clean_up()
    left = end_processes_of(home, PATIENCE) if request.param == "local" else {}
    assert not left, f"left running: {left}"
