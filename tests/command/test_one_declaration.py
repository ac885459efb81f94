"""An option is declared once, beside its field; every way in has it by that."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import dataclasses, json
from submarine_engine import job

job.JobSpec = dataclasses.make_dataclass(
    "JobSpec",
    [("flavour", str | None, dataclasses.field(default=None, metadata=job._option(
        "name", "What it tastes of.", choices=("sweet", "sour"))))],
    bases=(job.JobSpec,), frozen=True, kw_only=True,
)

from submarine_engine import api as calls
from submarine_engine.command import NOTEBOOK, complete, help_text, parse, parse_cell, to_command
from submarine_zeppelin.commands import local_options, merged
from submarine_zeppelin.properties import read_properties

spec = parse("job run --flavour sweet").spec
back = job.JobSpec.from_json(json.loads(json.dumps(spec.to_json())))
print(json.dumps({
    "terminal": spec.flavour,
    "cell": parse_cell("--flavour=sour").spec.flavour,
    "text": to_command(spec),
    "json": back.flavour,
    "help": [line.split() for line in help_text(("job", "run"), surface=NOTEBOOK).splitlines()
             if "--flavour" in line],
    "names": complete("job run --fl"),
    "values": complete("--flavour s", cell=True),
    "keyword": calls._spec(print, {"flavour": "sweet"}).flavour,
    "keywords": "flavour" in calls.OPTIONS,
    "property": merged([], local_options({"flavour": "sweet"})),
    "setting": read_properties({"submarine.job.flavour": "sweet"}).options,
}))
"""


def test_a_new_field_is_an_option_everywhere():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == {
        "terminal": "sweet",
        "cell": "sour",
        "text": "job run --name job --flavour sweet",
        "json": "sweet",
        "help": [["--flavour", "NAME", "What", "it", "tastes", "of."]],
        "names": ["--flavour"],
        "values": ["sweet", "sour"],
        "keyword": "sweet",
        "keywords": True,
        "property": ["--flavour=sweet"],
        "setting": {"flavour": "sweet"},
    }


def test_a_list_of_jobs_loads_no_bundle():
    code = (
        "import sys; from submarine_engine.cli import main; main(['job', 'list']);"
        "print([name for name in sys.modules if name.startswith('submarine_engine.bundle')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.endswith("[]\n")


def test_values_and_launch_need_no_click():
    code = (
        "import sys; from submarine_engine import api, config, doctor, settings;"
        "from submarine_engine.command import read_memory; print('click' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
