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

PUBLIC = """
ArgumentsError Batch Bundle BundleError CannotTravelError CaptureTooLargeError Cell CellSyntaxError
Cluster ClusterError CommandError ConfigError Cursor Display Event Executor FlowError Found Gpu Job
JobCancelledError JobError JobFailedError JobLostError JobNotFoundError JobSpec JobState JobStatus
JobSummary Ledger LogChunk Manifest Moment Resources ResourcesError ResultError Role SaveError Saved
SubmarineError SubmissionError TaskState TaskStatus UndefinedNameError UnsupportedError choice
integer launch list_jobs loguniform map open_job open_map open_sweep submit sweep uniform
""".split()  # noqa: SIM905 - words are easier to read than strings


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


def test_every_parameter_is_documented():
    engine = griffe.load(
        "submarine_engine", search_paths=[Path(submarine_engine.__file__).parents[1]],
        docstring_parser="numpy",
    )  # fmt: skip
    missing = []
    for public in PUBLIC:
        for path, function in public_functions(engine[public], public):
            assert function.docstring, path
            told = {
                name.strip(" *")
                for section in function.docstring.parsed
                if section.kind is griffe.DocstringSectionKind.parameters
                for parameter in section.value
                for name in parameter.name.split(",")
            }
            missing += [
                f"{path}({parameter.name})"
                for parameter in function.parameters
                if parameter.name not in {"self", "cls", *told}
            ]
    assert missing == []


RUNTIME = ("checkpoints", "job", "notices", "reports", "saving")
"""What of `submarine_runtime` training code may call, or has called for it."""


@pytest.mark.parametrize("module", RUNTIME)
def test_every_parameter_that_training_code_gives_is_documented(module):
    runtime = griffe.load(
        "submarine_runtime", search_paths=[Path(submarine_engine.__file__).parents[1]],
        docstring_parser="numpy",
    )  # fmt: skip
    missing = []
    for name, member in runtime[module].members.items():
        if name.startswith("_") or member.is_alias:
            continue
        for path, function in public_functions(member, name):
            assert function.docstring, path
            told = {
                one.strip(" *")
                for section in function.docstring.parsed
                if section.kind is griffe.DocstringSectionKind.parameters
                for parameter in section.value
                for one in parameter.name.split(",")
            }
            missing += [
                f"{path}({parameter.name})"
                for parameter in function.parameters
                if parameter.name not in {"self", "cls", *told}
            ]
    assert missing == []


def test_training_code_is_offered_nothing_else():
    assert submarine_runtime.__all__ == ["job", "on_save", "progress", "report"]
    assert all(getattr(submarine_runtime, name).__doc__ for name in submarine_runtime.__all__)


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
