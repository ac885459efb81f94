"""The configuration: a file, the environment, options, in that order; every value has an origin."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from submarine_engine.config import config_path, load_config
from submarine_engine.declared import known_settings
from submarine_engine.errors import ConfigError
from submarine_engine.history import default_home
from submarine_engine.settings import format_value

KEYS = known_settings()
DOCS = Path(__file__).parents[2] / "docs/configuration.md"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the configuration's file."""

    def write(text):
        path = tmp_path / "config/submarine/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


def told(config, key):
    return config.value(key), config.origin(key)


def test_defaults_need_no_file(monkeypatch, tmp_path):
    monkeypatch.delenv("SUBMARINE_HOME")
    monkeypatch.delenv("SUBMARINE_IMPORTS_AHEAD")
    monkeypatch.delenv("SUBMARINE_YARN_AHEAD")
    monkeypatch.delenv("SUBMARINE_PROVENANCE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    config = load_config()
    assert list(config) == list(KEYS)
    assert {key: config.origin(key) for key in config} == dict.fromkeys(KEYS, "default")
    assert config.value("cluster") == "local"
    assert config.value("capture_limit") == 64 << 20
    assert config.value("home") == default_home() == tmp_path / "data/submarine"


def test_the_later_wins(write, monkeypatch):
    path = write('grace = 1\ncapture_limit = "2M"\ncluster = "a"\n')
    assert told(load_config(), "grace") == (1.0, path)
    assert told(load_config(), "capture_limit") == (2 << 20, path)
    monkeypatch.setenv("SUBMARINE_GRACE", "2m")
    assert told(load_config(), "grace") == (120.0, "SUBMARINE_GRACE")
    assert told(load_config({"grace": 3}), "grace") == (3.0, "option")
    assert told(load_config({"cluster": None}), "cluster") == ("a", path)


def test_an_empty_variable_sets_nothing(monkeypatch):
    monkeypatch.setenv("SUBMARINE_CLUSTER", "")
    assert told(load_config(), "cluster") == ("local", "default")


def test_home_of_the_file_is_where_jobs_are_kept(write, monkeypatch, tmp_path):
    monkeypatch.delenv("SUBMARINE_HOME")
    write(f'home = "{tmp_path}/elsewhere"\n')
    assert default_home() == tmp_path / "elsewhere"


def test_another_file_may_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBMARINE_CONFIG", str(tmp_path / "mine.toml"))
    assert config_path() == tmp_path / "mine.toml"
    with pytest.raises(ConfigError, match="there is no such file"):
        load_config()
    (tmp_path / "mine.toml").write_text("grace = 9\n")
    assert told(load_config(), "grace") == (9.0, str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ('cluster = "a"\ngarce = 5\n', "line 2", "there is no setting 'garce'"),
        ("[local]\ngpus = 1\n", "line 1", "there is no setting 'local'"),
        ('\n"grace" = "soon"\n', "line 2", "grace cannot be 'soon'"),
        ("grace = -1\n", "line 1", "grace cannot be -1"),
        ("grace = true\n", "line 1", "grace cannot be True"),
        ("capture_limit = []\n", "line 1", "capture_limit cannot be []"),
        ('capture_limit = "lots"\n', "line 1", "'lots' is not a size"),
        ("local_gpus = 1.5\n", "line 1", "local_gpus cannot be 1.5"),
        ("local_gpus = 5000\n", "line 1", "from 0 to 1024"),
        ('cluster = ""\n', "line 1", "cluster cannot be ''"),
        ("home = 3\n", "line 1", "home cannot be 3"),
        ("grace = \n", "config.toml", "cannot be read: Invalid value (at line 1"),
        ("grace = 1\ngrace = 2\n", "config.toml", "cannot be read: Cannot overwrite a value"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(write, text, where, what):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load_config()
    assert caught.value.where.startswith(path)
    assert where in caught.value.where
    assert what in caught.value.what
    assert caught.value.fix


def test_the_nearest_setting_is_named(write):
    write("garce = 5\n")
    with pytest.raises(ConfigError) as caught:
        load_config()
    assert "did you mean grace?" in caught.value.fix


def test_a_wrong_variable_is_named(monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "many")
    with pytest.raises(ConfigError, match="local_gpus cannot be 'many'") as caught:
        load_config()
    assert caught.value.where == "environment variable SUBMARINE_LOCAL_GPUS"


def test_a_wrong_option_is_named():
    with pytest.raises(ConfigError, match="there is no setting 'clutser'"):
        load_config({"clutser": "x"})


def test_a_file_that_cannot_be_read_is_named(tmp_path, write):
    path = Path(write(""))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config()
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config()


@pytest.mark.parametrize("name", KEYS)
def test_every_setting_is_documented(name):
    key = KEYS[name]
    assert re.fullmatch(r"[A-Z].*\.", key.help)
    assert f"| `{name}` | `{key.variable}` |" in DOCS.read_text()


@pytest.mark.parametrize("name", KEYS)
def test_examples_are_possible(write, name):
    write(f"{name} = {KEYS[name].example}\n")
    assert load_config().origin(name) != "default"


def test_values_for_people():
    assert format_value("capture_limit", 64 << 20) == "64M"
    assert format_value("grace", 5.0) == "5"
    assert format_value("local_gpus", None) == "unset"


def test_the_command_shows_each_origin(submarine, write, monkeypatch):
    path = write("grace = 7\n")
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    shown = submarine("config", "show", "--json").stdout.splitlines()
    found = {entry["key"]: entry for entry in map(json.loads, shown)}
    assert list(found) == list(KEYS)
    assert found["grace"] == {"key": "grace", "value": 7.0, "origin": path}
    assert found["local_gpus"]["origin"] == "SUBMARINE_LOCAL_GPUS"
    text = submarine("config", "show").stdout.decode()
    assert re.search(rf"grace +7 +{re.escape(path)}", text)


def test_a_wrong_file_is_an_exit_code(submarine, write):
    write("garce = 5\n")
    done = submarine("config", "show")
    assert (done.returncode, b"did you mean grace?" in done.stderr) == (78, True)
