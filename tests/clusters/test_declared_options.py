"""What a cluster of somebody else's declares is an option, and a setting, on every way in."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
from submarine_engine import api
from submarine_engine.cli import main
from submarine_engine.clusters import open_cluster
from submarine_engine.command import NOTEBOOK, complete, help_text, parse, parse_cell, to_command
from submarine_engine.config import load_config
from submarine_engine.declared import check_options, declared
from submarine_engine.doctor import doctor
from submarine_engine.errors import CommandError, ConfigError, UnsupportedError
from submarine_engine.job import JobSpec
from submarine_zeppelin.commands import local_options, merged
from submarine_zeppelin.install import setting
from submarine_zeppelin.properties import read_properties

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, follow, spec_of

HOSTS = "hosts = submarine_hosts:HostsBackend"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    options = "hosts = submarine_hosts_options:DECLARED"
    use_backend(monkeypatch, tmp_path / "site", HOSTS, options)


@pytest.mark.usefixtures("installed")
def test_it_is_an_option_of_terminal_cell_and_zeppelin():
    assert parse("job run x.py --host beta").spec.options == {"host": "beta"}
    assert parse_cell("--host=beta --gpus 0").spec.options == {"host": "beta"}
    assert merged([], local_options({"host": "beta"})) == ["--host=beta"]
    assert read_properties({"submarine.job.host": "beta"}).options == {"host": "beta"}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("surface", ["terminal", NOTEBOOK])
def test_help_and_completion_list_it(surface):
    lines = [
        " ".join(line.split()) for line in help_text(("job", "run"), surface=surface).split("\n")
    ]
    assert "--host NAME On hosts: the host to run on." in lines
    assert sum(line.startswith("--mode ") for line in lines) == 1
    assert complete("job run --ho", surface=surface) == ["--host"]
    assert complete("--cluster local --ho", cell=True, surface=surface) == []
    assert complete("--host ", cell=True, surface=surface) == ["alpha", "beta"]


@pytest.mark.usefixtures("installed")
def test_its_value_is_checked_and_a_slip_is_answered_with_it():
    with pytest.raises(CommandError, match="there is no host 'gamma'") as caught:
        parse("job run --host gamma")
    assert caught.value.fix == "write --host alpha or beta"
    with pytest.raises(CommandError) as caught:
        parse("job run --hots beta")
    assert "did you mean --host?" in caught.value.fix


@pytest.mark.usefixtures("installed")
def test_it_survives_json_and_the_command_line():
    spec = parse("job run --host beta").spec
    assert JobSpec.from_json(spec.to_json()) == spec
    assert parse(to_command(spec)).spec == spec


def test_a_record_says_an_option_of_a_cluster_that_is_gone():
    spec = JobSpec(options={"host": "beta"})
    assert to_command(spec) == "job run --name job --host beta"


@pytest.mark.usefixtures("installed")
def test_it_reaches_the_request(tmp_path):
    cluster = open_cluster("hosts")
    for host in ("beta", "alpha"):
        job_id = cluster.submit(spec_of(host=host), bundle_of("1"), workdir=tmp_path)
        [task] = follow(cluster, job_id).status.tasks
        assert task.container.startswith(f"{host}/")
    end_processes_of(tmp_path / "home", patience=60)


@pytest.mark.usefixtures("installed")
def test_launch_takes_it_as_a_keyword_of_jobs_on_that_cluster_alone(tmp_path):
    assert "host" in api.job_keywords("hosts")
    assert "host" not in api.job_keywords("local")  # a function may have a parameter of that name
    program = tmp_path / "program.py"
    program.write_text(
        "from submarine_engine import submit\n"
        "def train(): return 7\n"
        "if __name__ == '__main__':\n"
        "    job = submit(train, cluster='hosts', host='beta', gpus=0)\n"
        "    print(job.result(), job.status().tasks[0].container.partition('/')[0])\n"
        "    submit(train, cluster='hosts', host=3)\n"
    )
    done = subprocess.run([sys.executable, program], check=False, capture_output=True, text=True)
    assert done.stdout == "7 beta\n"
    assert "host=3 is no text" in done.stderr
    end_processes_of(tmp_path / "home", patience=60)


def test_help_of_submit_says_what_our_own_clusters_declare():
    parameters = inspect.signature(api.submit).parameters
    assert "str" in str(parameters["mode"].annotation)
    assert "int" in str(parameters["priority"].annotation)


@pytest.mark.usefixtures("installed")
def test_another_cluster_refuses_it_and_names_the_one_that_knows_it(tmp_path):
    with pytest.raises(UnsupportedError, match="the local cluster knows no host") as caught:
        open_cluster("local").submit(spec_of(host="beta"), bundle_of("1"), workdir=tmp_path)
    assert (caught.value.where, "--cluster hosts" in caught.value.fix) == ("--host", True)
    spec = spec_of(node_label="fast", priority=3)
    with pytest.raises(UnsupportedError, match="no node label and no priority") as caught:
        open_cluster("hosts").check(spec)
    assert "--cluster yarn" in caught.value.fix
    check_options(spec_of(mode="warm", isolation="shared"), "hosts")  # how a job is run elsewhere


def test_what_nobody_knows_is_refused():
    with pytest.raises(UnsupportedError, match="the local cluster knows no spin") as caught:
        check_options(JobSpec(options={"spin": 1}), "local")
    assert caught.value.fix == "leave it out"


@pytest.mark.parametrize(
    ("option", "value"), [("mode", "hot"), ("mode", 1), ("priority", "high"), ("priority", True)]
)
def test_a_value_that_no_front_end_has_read_is_checked_too(option, value):
    with pytest.raises(CommandError, match=option):
        check_options(JobSpec(options={option: value}), "yarn")


def test_a_record_of_a_former_release_has_its_options():
    former = {"mode": "cold", "environment": None, "node_label": "fast", "isolation": None}
    data = {**JobSpec().to_json(), **former}
    del data["options"]
    assert JobSpec.from_json(data) == JobSpec(options={"mode": "cold", "node_label": "fast"})


@pytest.mark.usefixtures("installed")
def test_its_settings_are_settings_like_all_others(tmp_path, monkeypatch):
    assert load_config().value("hosts_patience") == 5.0
    assert load_config().origin("hosts_patience") == "default"
    assert "hosts_patience" in load_config(search=True)
    file = tmp_path / "config.toml"
    file.write_text("hosts_patience = '2m'\n")
    monkeypatch.setenv("SUBMARINE_CONFIG", str(file))
    assert load_config().value("hosts_patience") == 120.0
    monkeypatch.setenv("SUBMARINE_HOSTS_PATIENCE", "7")
    assert load_config().value("hosts_patience") == 7.0
    assert load_config().origin("hosts_patience") == "SUBMARINE_HOSTS_PATIENCE"
    assert "setting hosts_patience" in {check.title for check in doctor()}
    properties = json.loads(setting(tmp_path / "submarine.sh"))[0]["properties"]
    assert properties["submarine.hosts_patience"]["description"] == (
        "Seconds that a host may take to answer. Empty: 5."
    )
    found = read_properties({"submarine.hosts_patience": "8"})
    assert found.environment["SUBMARINE_HOSTS_PATIENCE"] == "8"
    file.write_text("hosts_patience = 'soon'\n")
    with pytest.raises(ConfigError, match="hosts_patience cannot be 'soon'"):
        load_config()


@pytest.mark.usefixtures("installed")
def test_its_verbs_are_verbs_like_all_others(capsys):
    assert main(["hosts", "names", "beta"]) == 0
    assert capsys.readouterr().out == "beta\n"
    assert "hosts names " in help_text()
    assert "hosts names " in help_text(("hosts",))
    assert "One of them." in help_text(("hosts", "names"))
    assert "hosts" not in help_text(surface=NOTEBOOK)
    assert complete("ho") == ["hosts"]
    assert complete("hosts n") == ["names"]
    with pytest.raises(CommandError, match="`hosts` needs a verb"):
        parse("hosts")
    assert parse("hosts names --help").values["about"] == ("hosts", "names")


def test_verbs_that_cannot_be_loaded_are_left_out_with_a_warning(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text(
        "from submarine_engine.declared import Declared\n"
        "DECLARED = Declared(verbs='nowhere:GROUP')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    use_backend(monkeypatch, tmp_path / "site", HOSTS, "hosts = half_there:DECLARED")
    with pytest.warns(UserWarning, match="the verbs of 'hosts' are left out"):
        assert "job run" in help_text()


@pytest.mark.parametrize(
    "entry",
    [
        "submarine_hosts_options:GONE",
        "submarine_hosts:HostsBackend",
        "nowhere:DECLARED",
        "declared_badly:TAKEN",
        "declared_badly:REPEATED",
    ],
)
def test_what_cannot_be_used_is_left_out_with_a_warning(tmp_path, monkeypatch, entry):
    (tmp_path / "declared_badly.py").write_text(
        "from submarine_engine.declared import Declared\n"
        "from submarine_engine.job import OptionInfo\n"
        "def one(**told):\n"
        "    return Declared(options=(OptionInfo(kind='name', help='No.', group='No', **told),))\n"
        "TAKEN, REPEATED = one(name='queue'), one(name='some', repeat=True)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    use_backend(monkeypatch, tmp_path / "site", HOSTS, f"hosts = {entry}")
    with pytest.warns(UserWarning, match="the options of the cluster 'hosts' are left out"):
        assert "hosts" not in declared(search=True)
