"""The public API is a list; nothing joins or leaves it by accident."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest
import submarine_engine
import submarine_runtime

# One process reads all of the engine, and each test of this file asks it.
pytestmark = pytest.mark.xdist_group("the public API")

PUBLIC = """
ArgumentsError Batch Bundle BundleError CannotTravelError CaptureTooLargeError Cell CellSyntaxError
Cluster ClusterError CommandError ConfigError Cursor Display Event Executor FlowError Found Gpu Job
JobCancelledError JobError JobFailedError JobLostError JobNotFoundError JobSpec JobState JobStatus
JobSummary Ledger LogChunk Manifest Moment Resources ResourcesError ResultError Role SaveError Saved
SubmarineError SubmissionError TaskState TaskStatus UndefinedNameError UnsupportedError choice
integer launch list_jobs loguniform map open_job open_map open_sweep submit sweep uniform
""".split()  # noqa: SIM905 - words are easier to read than strings

# What docs/clusters.md names, and what a backend in tests/clusters uses.
OF_BACKENDS = """
clusters.backend clusters.base clusters.container clusters.environment clusters.exchange
clusters.locks clusters.log_mirror clusters.machine clusters.noted_request clusters.polled
clusters.refusals clusters.saving clusters.storage clusters.store clusters.tasks declared findings
history job lifecycle secret_values settings testing.jobs testing.place
""".split()  # noqa: SIM905 - likewise
# Of which nothing is missing by now, so that nothing is again.
OTHERS = """
cache cache_key clusters.hangs clusters.idle clusters.inside clusters.local.gpus
clusters.local.options clusters.local.verbs clusters.reader clusters.stacks clusters.yarn.job_hdfs
clusters.yarn.verbs command.tags doctor flows.airflow flows.current flows.drawing flows.layout
flows.node flows.reopen flows.runner flows.writers future installer.kept installer.slurm
kept_record patience pool.executor pool.results serving.launching serving.mlserver_model
serving.model serving.replica serving.try_page sweeps.found sweeps.hparams sweeps.plan
sweeps.summary sweeps.sweeping tables tensorboard.auth typed_fields unmet waterfall
""".split()  # noqa: SIM905 - likewise


@pytest.fixture(scope="module")
def engine():
    return griffe.load(
        "submarine_engine", search_paths=[Path(submarine_engine.__file__).parents[1]],
        docstring_parser="numpy",
    )  # fmt: skip


def test_the_public_names_are_these():
    assert submarine_engine.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(submarine_engine, name).__doc__
    assert name in dir(submarine_engine)


def public_functions(
    owner: griffe.Object | griffe.Alias, path: str
) -> Iterator[tuple[str, griffe.Function]]:
    """Yield a name's function, or the methods of its class, with what people write for them."""
    if owner.is_alias:
        owner = owner.final_target
    if owner.is_function:
        yield path, owner
    elif owner.is_class:
        for name, member in owner.members.items():
            if not name.startswith("_") and not member.is_alias:
                yield from public_functions(member, f"{path}.{name}")


def test_every_parameter_is_documented(engine):
    missing = []
    for public in PUBLIC:
        missing += undocumented(engine[public], public)
    assert missing == []


@pytest.mark.parametrize("module", [*OF_BACKENDS, *OTHERS])
def test_every_parameter_of_these_modules_is_documented(engine, module):
    assert undocumented_of(engine[module]) == []


RUNTIME = ("checkpoints", "job", "notices", "reports", "saving")
"""What of `submarine_runtime` training code may call, or has called for it."""


@pytest.mark.parametrize("module", RUNTIME)
def test_every_parameter_that_training_code_gives_is_documented(module):
    runtime = griffe.load(
        "submarine_runtime", search_paths=[Path(submarine_engine.__file__).parents[1]],
        docstring_parser="numpy",
    )  # fmt: skip
    assert undocumented_of(runtime[module]) == []


def test_training_code_is_offered_nothing_else():
    assert submarine_runtime.__all__ == ["job", "on_save", "progress", "report"]
    assert all(getattr(submarine_runtime, name).__doc__ for name in submarine_runtime.__all__)


def undocumented_of(module: griffe.Object | griffe.Alias) -> list[str]:
    """Return the parameters that the public functions and classes of a module do not document."""
    missing = []
    for name, member in module.members.items():
        if not name.startswith("_") and not member.is_alias:
            missing += undocumented(member, name)
    return missing


def undocumented(owner: griffe.Object | griffe.Alias, path: str) -> Iterator[str]:
    """Yield the parameters that a name's function, or the methods of its class, do not document."""
    for place, function in public_functions(owner, path):
        sections = function.docstring.parsed if function.docstring else []
        told = {
            name.strip(" *")
            for section in sections
            if section.kind is griffe.DocstringSectionKind.parameters
            for parameter in section.value
            for name in parameter.name.split(",")
        }
        if not sections:
            yield f"{place}: no docstring"
        for parameter in function.parameters:
            if parameter.name not in {"self", "cls", *told}:
                yield f"{place}({parameter.name})"


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(submarine_engine.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.name for node in imports for alias in node.names) == PUBLIC
    for node in imports:
        for alias in node.names:
            assert f"submarine_engine.{submarine_engine._HOMES[alias.name]}" == node.module


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'submarine_engine' has no attribute 'lunch'"):
        submarine_engine.lunch  # noqa: B018 - the access is the test


def test_importing_the_engine_loads_nothing_else():
    code = "import sys, submarine_engine; print(*(m for m in sys.modules if 'submarine' in m))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name for name in run.stdout.split() if not name.startswith("__")}
    assert loaded == {"submarine_engine"}


def test_the_page_has_the_version_of_the_engine():
    package = Path(__file__).parents[2] / "jupyter_ext/labextension/package.json"
    assert json.loads(package.read_text())["version"] == submarine_engine.__version__
