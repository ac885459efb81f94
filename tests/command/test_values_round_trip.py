"""Values and specs survive the way to text and back."""

from __future__ import annotations

import json
import shlex
import string
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from submarine_engine.clusters.local.options import ISOLATIONS
from submarine_engine.clusters.yarn.options import MODES
from submarine_engine.command import format_size, job_name, parse, read_memory, to_command
from submarine_engine.command.parser import split
from submarine_engine.command.values import (
    format_memory,
    format_resources,
    format_seconds,
    read_resources,
    read_seconds,
    read_size,
)
from submarine_engine.errors import CommandError
from submarine_engine.job import JobSpec, Resources, Role
from submarine_runtime.rendezvous import FRAMEWORKS

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._=+,@~-]{0,63}", fullmatch=True)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)
IDENTIFIERS = st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True)
TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
WORDS = TEXT.filter(str.strip)
RESOURCES = st.builds(
    Resources,
    gpus=st.none() | st.integers(0, 64),
    memory=st.none() | st.integers(1, 1 << 24),
    vcores=st.none() | st.integers(1, 512),
)
COMMANDS = st.none() | WORDS
WORKERS = st.builds(Role, count=st.integers(1, 99), resources=RESOURCES, command=WORDS) | st.builds(
    Role, count=st.integers(1, 99), resources=RESOURCES, args=st.lists(TEXT).map(tuple)
)
SERVERS, CHIEF, EVALUATORS = (
    st.builds(Role, name=st.just(name), count=count, resources=RESOURCES, command=COMMANDS)
    for name, count in (
        ("ps", st.integers(1, 99)), ("chief", st.just(1)), ("evaluator", st.integers(1, 9)),
    )
)  # fmt: skip
ROLES = (
    st.tuples(WORKERS)
    | st.tuples(WORKERS, SERVERS)
    | st.tuples(WORKERS, SERVERS, CHIEF)
    | st.tuples(WORKERS, EVALUATORS)
)
LINKS = st.dictionaries(
    WORDS.filter(lambda text: "=" not in text), WORDS.map(lambda text: f"https://{text}")
).map(lambda links: tuple(links.items()))
SPECS = st.builds(
    JobSpec,
    name=NAMES,
    roles=ROLES,
    queue=st.none() | WORDS,
    docker_image=st.none() | WORDS,
    input_path=st.none() | WORDS,
    checkpoint_path=st.none() | WORDS,
    framework=st.sampled_from(FRAMEWORKS),
    tensorboard=st.booleans(),
    quicklinks=LINKS,
    env=st.dictionaries(KEYS, TEXT),
    outputs=st.lists(IDENTIFIERS.filter("none".__ne__), unique=True).map(tuple),
    options=st.fixed_dictionaries(
        {},
        optional={
            "mode": st.sampled_from(MODES),
            "environment": WORDS,
            "node_label": WORDS,
            "priority": st.integers(0, 999),
            "view_users": WORDS,
            "isolation": st.sampled_from(ISOLATIONS),
        },
    ),
)


@given(SPECS)
def test_a_spec_survives_the_command_line(spec):
    assert parse(to_command(spec)).spec == spec


@given(SPECS)
def test_a_spec_survives_json(spec):
    assert JobSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@given(SPECS)
def test_also_as_words_and_with_a_script(spec):
    command = parse(shlex.split(to_command(spec, "train.py")))
    assert command.spec == spec
    assert command.values["script"] == "train.py"


def test_a_command_line_is_what_a_person_would_type():
    spec = JobSpec(name="mnist", roles=(Role(resources=Resources(gpus=2, memory=8192)),))
    assert to_command(spec, "train.py") == "job run --name mnist --gpus 2 --memory 8G train.py"


def test_roles_without_options_have_no_command_line():
    spec = JobSpec(roles=(Role(name="chief"), Role()))
    with pytest.raises(CommandError, match="no command line says roles chief, worker"):
        to_command(spec)


@given(st.lists(TEXT))
def test_split_undoes_a_shells_quoting(words):
    assert split(shlex.join(words)) == words


def test_lines_end_in_a_backslash_as_in_a_shell():
    assert split("a \\\n  b\\\nc 'x\\\ny'") == ["a", "bc", "x\\\ny"]


@given(RESOURCES.filter(lambda resources: resources != Resources()))
def test_resources_survive_text(resources):
    assert read_resources(format_resources(resources)) == resources


@given(st.integers(1, 1 << 30))
def test_memory_survives_text(mebibytes):
    assert read_memory(format_memory(mebibytes)) == mebibytes


@given(st.integers(0, 1 << 50))
def test_sizes_survive_text(size):
    assert read_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("8G", 8192), ("8GB", 8192), ("8g", 8192), ("8Gi", 8192), ("8192M", 8192), ("8192", 8192),
     ("1.5G", 1536), ("0.5T", 524288), (" 2 GB ", 2048), ("1048576K", 1024), ("1024KiB", 1)],
)  # fmt: skip
def test_memory_is_hadoops(text, mebibytes):
    assert read_memory(text) == mebibytes


@pytest.mark.parametrize(
    "text",
    ["lots", "", "-1", "-8G", "0", "0G", "8X", "G", "1e9", "8 G B", "1,5G", "0.0001M", "nan",
     "inf", "8G8", "٨G", "9" * 5000],
)  # fmt: skip
def test_memory_that_is_none_is_refused(text):
    with pytest.raises(CommandError):
        read_memory(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5s", 1.5),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("3600 s", 3600),
        ("0", 0),
    ],
)
def test_lengths_of_time(text, seconds):
    assert read_seconds(text) == seconds


@given(st.integers(1, 10**9) | st.floats(1e-6, 1e6).map(lambda seconds: round(seconds, 6)))
@example(10**9)
def test_lengths_of_time_survive_text(seconds):
    assert read_seconds(format_seconds(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "-1", "soon", "1w", "1:30", "inf"])
def test_no_lengths_of_time(text):
    with pytest.raises(CommandError):
        read_seconds(text)


@given(st.text(string.printable + "äß漢\u202e\x00", max_size=200))
def test_any_text_makes_a_job_name(text):
    assert JobSpec(name=job_name(text)).name


@pytest.mark.parametrize(
    ("text", "name"),
    [("train", "train"), ("My Notebook (1)", "My-Notebook-1"), ("_x_", "x"), ("漢字", "job"),
     ("", "job"), ("a" * 80, "a" * 64)],
)  # fmt: skip
def test_names_keep_what_they_can(text, name):
    assert job_name(text) == name


@given(st.lists(st.text(max_size=8), max_size=6))
def test_any_words_parse_or_are_a_command_error(words):
    with suppress(CommandError):
        assert parse(["job", "run", *words]).path in {("job", "run"), ("help",)}


@given(st.text(max_size=40))
def test_any_text_parses_or_is_a_command_error(text):
    with suppress(CommandError):
        assert parse(text).path
