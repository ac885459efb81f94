"""A secret never becomes text of a script, nor of anything else that people read of a bundle."""

from __future__ import annotations

import pytest
from submarine_engine.bundle import BuildOptions, build_call
from submarine_engine.bundle.secrets import has_secret_name, is_secret, shown
from submarine_engine.errors import CannotTravelError

MARKED = "hf_" + "S3CR3Tm4rk" * 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", MARKED),
        ("x", "ghp_" + "a1" * 18),
        ("x", "AKIA" + "ABCD" * 4),
        ("x", "sk-proj-" + "a1" * 18),
        ("x", "xoxb-123456789012-abcdefghij"),
        ("x", "glpat-abcdefghij0123456789"),
        ("x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc"),
        ("x", "-----BEGIN RSA PRIVATE KEY-----\nMIIE"),
        ("x", b"-----BEGIN PRIVATE KEY-----"),
        ("x", f"https://user:{MARKED}@host/"),
        ("x", "postgres://me:pass@db/data"),
        ("x", {"Authorization": "Basic bWU6cGFzcw=="}),
        ("api_key", "0123456789abcdef"),
        ("dbPassword", "correct-horse"),
        ("x", {"token": "0123456789"}),
        ("x", [("a", {"b": MARKED})]),
        ("HF_TOKENS", ["0123456789"]),
    ],
)
def test_what_is_a_secret(name, value):
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a plain text"),
        ("x", "https://host:8080/path@2x.png"),
        ("x", "Basic training"),
        ("tokenizer", "bert-base-uncased"),
        ("author", "somebody-known"),
        ("keywords", "something-else"),
        ("token", "<pad>"),
        ("max_tokens", 4096),
        ("keys", ("loss_of_all", "accuracy_of_all")),
        ("x", None),
    ],
)
def test_what_is_none(name, value):
    assert not is_secret(name, value)


def test_what_the_environment_holds_is_one(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://somebody@db/data")
    assert is_secret("url", "postgres://somebody@db/data")
    assert not is_secret("url", "postgres://db/data")
    monkeypatch.setenv("DATA", "/data/of/all/of/us")
    assert not is_secret("data", "/data/of/all/of/us")


@pytest.mark.parametrize("name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "APIKEY"])
def test_variables_of_the_environment_go_by_the_same_rule(name):
    assert has_secret_name(name)


def test_it_is_shown_by_its_length():
    assert shown("x" * 37) == "<secret, str, 37 chars>"
    assert shown(b"x") == "<secret, bytes, 1 bytes>"
    assert shown({}) == "<dict with a secret>"


@pytest.mark.parametrize(
    "cell",
    [
        "import os; mine = os.environ['MARKED_VALUE']",
        f"mine = {MARKED!r}",  # it is in that cell; the script, the card and the log need it not
        f"mine = {{'to': ['{MARKED}']}}",
    ],
)
def test_it_travels_as_a_value(notebook, monkeypatch, tmp_path, cell):
    monkeypatch.setenv("MARKED_VALUE", MARKED)
    notebook.run(cell)
    bundle = notebook.bundle("print(len(mine))")
    files = dict(bundle.files)
    holding = [path for path, content in files.items() if MARKED.encode() in bytes(content)]
    assert holding == ["values/mine.pkl"]
    (value,) = bundle.manifest.values
    assert value.how == "pickle"
    assert value.type == shown(notebook.module.mine)


def test_so_does_one_that_a_call_is_given(notebook):
    notebook.run("def train(api_key, into): return len(api_key)\nx = 'correct-horse'")
    bundle = notebook.call(notebook.module.train, notebook.module.x, into=MARKED)
    text = bundle.script + str(bundle.manifest.to_json())
    assert "correct-horse" not in text
    assert MARKED not in text
    assert notebook.result(bundle) == ""


@pytest.mark.parametrize(
    "made",
    [
        "f'postgres://{password}@db/data'",
        "{'Authorization': 'Custom ' + password}",
        "password + '\\n'",
        "[('pass=' + password).encode()]",
    ],
)
def test_a_text_that_a_secret_is_put_into_is_one(notebook, monkeypatch, made):
    monkeypatch.setenv("DB_PASSWORD", "correct-horse")
    notebook.run(f"import os\npassword = os.environ['DB_PASSWORD']\nmade = {made}")
    bundle = notebook.bundle("print(len(made))")
    assert "correct-horse" not in bundle.script + str(bundle.manifest.to_json())
    assert notebook.result(bundle) == f"{len(notebook.module.made)}\n"


def test_a_variable_that_the_notebook_sets_to_one_is_not_written(notebook, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "correct-horse")
    monkeypatch.setenv("DATABASE", "")
    notebook.run("import os\nos.environ['DATABASE'] = 'pg:' + os.environ['DB_PASSWORD']")
    bundle = notebook.bundle("print(len(os.environ['DATABASE']))")
    assert "correct-horse" not in bundle.script


def test_the_way_to_what_cannot_travel_names_no_secret(notebook):
    notebook.run(
        f"import threading\nlock = threading.Lock(); lock.acquire()\nheld = {{'{MARKED}': [lock]}}"
    )
    with pytest.raises(CannotTravelError, match=r"`held\[…\]\[0\]` is a lock") as raised:
        notebook.bundle("print(held)")
    assert MARKED not in str(raised.value)


def test_what_was_captured_is_told_to_be_masked_and_is_in_no_file_for_that(notebook, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "correct-horse")
    notebook.run(
        "import os\n"
        f"config = {{'to': [{MARKED!r}]}}\n"
        "config['say'] = 'my pg://me:pass@db of ' + os.environ['DB_PASSWORD']\n"
        "password, plain = b'battery-staple', 'plain-words'"
    )
    bundle = notebook.bundle("print(config, password, plain)")
    assert sorted(set(bundle.secrets)) == [
        ("config", "://me:pass@"),
        ("config", "correct-horse"),
        ("config", MARKED),
        ("password", "battery-staple"),
    ]
    assert "secrets" not in bundle.manifest.to_json()


@pytest.mark.parametrize("value", ["/plain/looking", "s3cre7", "a b c d e f", "postgres"])
def test_what_is_declared_to_be_one_is_one_whatever_it_looks_like(notebook, monkeypatch, value):
    monkeypatch.setenv("PLAIN", "")
    notebook.run(
        f"import os\nos.environ['PLAIN'] = {value!r}\n"
        "mine = os.environ['PLAIN']\nheld = {'to': 'x' + mine}\ndef train(at, by=held): return at"
    )
    asked = "print(len(mine), len(held['to']), len(os.environ['PLAIN']))"
    assert value in notebook.bundle(asked).script
    bundle = notebook.bundle(asked, secrets=("PLAIN",))
    assert value not in bundle.script + str(bundle.manifest.to_json())
    assert {name for name, _ in bundle.secrets} == {"mine", "held"}
    assert {text for _, text in bundle.secrets} >= {value}
    assert notebook.result(bundle).split()[:2] == [str(len(value)), str(len(value) + 1)]

    known = notebook.namespace
    secret = BuildOptions(secrets=("PLAIN",))
    called = build_call(known["train"], (value,), {}, notebook.cells, known, options=secret)
    assert value not in called.script + str(called.manifest.to_json())
