"""What every test gets: an environment in which nothing of the user's own is seen or touched."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.hadoop",
    "tests.kubernetes_homes",
    "tests.kubernetes_own",
    "tests.kueue_site",
    "tests.slurm_own",
]

# A busy machine is no failure. The same commit gives the same examples, fifty of a property: what
# is found once is found each time. Only `make test-long` looks for new ones, and what it finds
# becomes an `@example` beside its property.
CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("submarine", CALM, max_examples=50, derandomize=True)
settings.register_profile("explore", CALM, max_examples=300, print_blob=True)
settings.load_profile("submarine")

# A shell ignores interrupts for what it starts in the background, and nohup the end of a terminal;
# the tests and their processes do not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

GROUPS = {
    "built": "the package",
    "home_of_its_own": "clusters of their own",
    "hub": "JupyterHub",
    "kubernetes": "the Kubernetes",
    "secure_yarn": "the secure cluster",
    "slurm": "the Slurm",
    "slurm_of_its_own": "the Slurm to be broken",
    "yarn": "the cluster",
    "zeppelin": "Zeppelin",
    "zeppelin_of_its_own": "Zeppelins of their own",
    "zeppelin_of_the_module": "Zeppelins of their own",
    "lab": "JupyterLab",
    "bare_lab": "JupyterLab as it comes",
    "kernel": "the kernel of {module}",
    "module_home": "the server of {module}",
}
"""Fixtures that take long to make, and the group of tests that follow one another on one.

Groups start in the order of their size, the single tests last: they fill what time is left.
"""

WITHOUT_GPUS = {
    "environments", "hdfs", "logs", "tensorboard",
    "test_contract_artifacts", "test_contract_displays", "test_contract_inside",
    "test_contract_logs", "test_contract_post_mortem", "test_contract_refusals",
    "test_contract_secrets", "test_yarn_mended_path", "test_yarn_secret_scan",
    "test_yarn_several", "test_yarn_yield_capacity",
}  # fmt: skip
"""Folders and modules whose jobs on the cluster hold none: who counts GPUs is not disturbed.

They are a group of their own, which runs beside the other one: each is about half of the time.
"""

JOBS = {
    "home", "local", "pool", "sweeps", "api/test_failures_at_cell_and_line",
    "api/test_launch_from_programs", "browser/test_log_page", "bundle/test_build_laws",
    "bundle/test_capture_frameworks", "bundle/test_made_again", "bundle/test_reads",
    "bundle/test_script_style", "checks/test_yarn_doctor", "checks/test_yarn_preflight",
    "checks/test_yarn_waiting", "cli/test_again", "cli/test_completion", "cli/test_debugging",
    "cli/test_doctor", "cli/test_export", "cli/test_inside", "cli/test_look_after_jobs",
    "cli/test_remembered", "cli/test_run_a_file", "cli/test_terminal", "clusters/test_attempts",
    "clusters/test_choice", "clusters/test_declared_options", "clusters/test_keeper",
    "clusters/test_kept_kills", "clusters/test_several_tasks", "clusters/test_simulation",
    "command/test_values_round_trip", "contract/test_contract_attempts",
    "contract/test_contract_elastic", "contract/test_contract_ending",
    "contract/test_contract_logs", "contract/test_contract_pools", "contract/test_contract_save",
    "contract/test_contract_several", "contract/test_contract_stacks", "core/test_yarn_boot",
    "environments/test_yarn_packing", "flows/test_after_in_a_notebook", "flows/test_azkaban_flow",
    "flows/test_azkaban_server", "flows/test_flow_cache", "flows/test_flow_current",
    "flows/test_flow_folder", "flows/test_flow_habits", "flows/test_flow_kills",
    "flows/test_flow_node", "flows/test_flow_notes", "flows/test_flow_run", "foundation/test_cache",
    "foundation/test_usage", "fuzz/test_files", "fuzz/test_found", "fuzz/test_listeners",
    "kubernetes/test_kubernetes_begin", "kubernetes/test_kubernetes_files",
    "kubernetes/test_kubernetes_login", "kubernetes/test_kubernetes_words",
    "logs/test_yarn_logs_mirror", "magics/test_inside", "repo/test_docs", "repo/test_groups",
    "runtime/test_runtime_checkpoint_ranks", "runtime/test_runtime_checkpoints",
    "runtime/test_runtime_displays", "runtime/test_runtime_endings", "runtime/test_runtime_inside",
    "runtime/test_runtime_leaving", "runtime/test_runtime_metrics",
    "runtime/test_runtime_post_mortem", "runtime/test_runtime_reach", "runtime/test_runtime_stacks",
    "runtime/test_runtime_trials", "serving/test_serve", "zeppelin/test_install",
    "zeppelin/test_links",
}  # fmt: skip
"""Folders and modules whose tests run jobs or programs, or hundreds of examples.

They are a third of the tests without a service, and take four fifths of their time: `make check`
leaves them out. The real jobs in it are those of the rest of the contract, on the local cluster.
"""

SAMPLE = 4
"""Of the cases of a test that is ``sampled``, `make test` takes the first of every so many."""

SERVICES = {*GROUPS, "browser", "driven", "talk"} - {"built"}
"""Fixtures that start programs other than jobs: their tests are marked ``service``."""

THIS = ".".join(platform.python_version_tuple()[:2])
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")


@cache
def supported_pythons() -> dict[str, str]:
    """Return the supported interpreters of this machine, path by version, on PATH or pyenv's."""
    found = {}
    for version in SUPPORTED:
        pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python3"))
        for path in (shutil.which(f"python{version}"), *map(str, pyenv)):
            # A shim of pyenv may be there without an interpreter behind it.
            if path and subprocess.call([path, "-c", ""], stderr=subprocess.DEVNULL) == 0:
                found[version] = path
                break
    return found


def pytest_report_header() -> str:
    found = ", ".join(supported_pythons())
    return f"this Python: {platform.python_version()}; the engine is also tried on: {found}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "each_python" in metafunc.fixturenames:
        metafunc.parametrize(
            "each_python",
            [
                pytest.param(path, id=version, marks=() if version == THIS else pytest.mark.long)
                for version, path in supported_pythons().items()
            ],
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they need; those of one real cluster follow one another in one process."""
    cases: Counter[tuple[Path, str]] = Counter()
    for item in items:
        if item.get_closest_marker("sampled"):
            test = (item.path, getattr(item, "originalname", item.name))
            if cases[test] % SAMPLE:
                item.add_marker(pytest.mark.long)
            cases[test] += 1
        fixtures = {*getattr(item, "fixturenames", ())}
        group = next((GROUPS[name] for name in GROUPS if name in fixtures), None)
        if item.path.parent.name == "contract" and hasattr(item, "callspec"):
            group = GROUPS.get(item.callspec.params.get("cluster"))  # its fixture, by its name
        if group == GROUPS["yarn"] and WITHOUT_GPUS & {item.path.parent.name, item.path.stem}:
            group = f"{group}, without its GPUs"
        marker = item.get_closest_marker("xdist_group")
        named = {*marker.args, *marker.kwargs.values()} if marker else set()
        if group and not named:
            item.add_marker(pytest.mark.xdist_group(group.format(module=item.path.stem)))
        folder, stem = item.path.parent.name, item.path.stem
        if JOBS & {folder, f"{folder}/{stem}"}:
            item.add_marker(pytest.mark.jobs)
        if group or named & {*GROUPS.values()} or fixtures & SERVICES:
            item.add_marker(pytest.mark.service)


@pytest.fixture(autouse=True)
def own_environment(tmp_path, monkeypatch):
    """Give the test its own job folder, configuration and IPython profile."""
    for name in list(os.environ):
        if name.startswith("SUBMARINE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # Their processes outlive jobs; the tests of them turn them on.
    monkeypatch.setenv("SUBMARINE_IMPORTS_AHEAD", "false")
    monkeypatch.setenv("SUBMARINE_YARN_AHEAD", "false")
    monkeypatch.setenv("SUBMARINE_PROVENANCE", "false")


@pytest.fixture
def write_steady_marks(monkeypatch: pytest.MonkeyPatch):
    """Give `masking.write_marks` with the same key each time.

    By one key in a thousand other text looks like the beginning of a test's secret, and what a job
    that runs may be writing of it is held back.
    """
    from submarine_engine import masking

    def write(folder: Path, values: list[tuple[str, str]]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "urandom", bytes)
            masking.write_marks(folder, values)

    return write
