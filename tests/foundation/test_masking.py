"""Secrets are found again in what is shown, wherever it is cut; and nothing keeps them for that."""

from __future__ import annotations

import errno
import html
import json
import os
import stat
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submarine_engine import masking
from submarine_engine.clusters.tasks import Progress
from submarine_engine.history import JobPaths
from submarine_engine.masking import FILE, SHORTEST, Masker, masked_pread, masker_of, write_marks
from submarine_engine.outcome import read_outcome

TOKEN = "hf_" + "S3CR3Tm4rk" * 3
MASK = "<secret TOKEN>".ljust(len(TOKEN), "*")


def masker(tmp_path_factory, **values) -> Masker:
    folder = tmp_path_factory.mktemp("job")
    write_marks(folder, values.items())
    return masker_of(folder)


def test_a_secret_reads_as_its_name_and_is_as_long_as_before(tmp_path_factory):
    mask = masker(tmp_path_factory, TOKEN=TOKEN)
    assert mask.text(f"to {TOKEN}, twice: {TOKEN}\n") == f"to {MASK}, twice: {MASK}\n"
    assert mask.text("to nobody \ud800") == "to nobody \ud800"
    assert mask.within({TOKEN: [1, None, f"é{TOKEN}"]}) == {MASK: [1, None, f"é{MASK}"]}


def test_what_is_kept_holds_no_value_and_is_ours_alone(tmp_path):
    write_marks(tmp_path, [("TOKEN", TOKEN), ("PIN", "123456")])
    kept = tmp_path / FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not any(value in kept.read_text() for value in (TOKEN, TOKEN[:8], "123456"))
    assert TOKEN.encode().hex() not in kept.read_text()
    for mark in json.loads(kept.read_text())["secrets"]:
        assert len(bytes.fromhex(mark["begin"])) <= 4
        assert max(bytes.fromhex(mark["begin"])) < 16


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a" * (SHORTEST - 1), "a" * (SHORTEST - 1)),
        ("secre7", "******"),
        ("correct-horse", "<secret>*****"),
        ("Größe-über-allem-Maß", "<secret PASSWORD>".ljust(24, "*")),
    ],
)
def test_a_short_one_has_a_short_mask(tmp_path_factory, value, shown):
    found = masker(tmp_path_factory, PASSWORD=value, TOKEN=TOKEN).text(f"({value})")
    assert found == f"({shown})"


def test_one_of_several_lines_is_masked_line_by_line(tmp_path_factory):
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nabc\n-----END PRIVATE KEY-----"
    shown = masker(tmp_path_factory, KEY=key).text(f"I have\r\n{key}\n")
    assert shown.splitlines()[2:4] == ["<secret KEY>********", "abc"]
    assert "BEGIN" not in shown


def test_a_long_one_is_masked_to_its_end(tmp_path_factory):
    long = "".join(f"{number:05}" for number in range(700))
    shown = masker(tmp_path_factory, LONG=long).text(f"[{long}]")
    assert len(shown) == len(long) + 2
    assert not any(character.isdigit() for character in shown)


def test_one_within_another_leaves_the_whole_masked(tmp_path_factory):
    mask = masker(tmp_path_factory, URL=f"https://me:{TOKEN}@host", TOKEN=TOKEN)
    assert mask.text(f"https://me:{TOKEN}@host") == "<secret URL>".ljust(len(TOKEN) + 16, "*")


@settings(deadline=None)
@given(
    pieces=st.lists(st.sampled_from([TOKEN, "secre7", "x", "hf_S3CR", "\n", "loss=0.1 "])),
    cuts=st.lists(st.integers(0, 400)),
)
def test_pieces_of_a_log_are_masked_as_the_whole_is(tmp_path_factory, pieces, cuts):
    mask = masker(tmp_path_factory, TOKEN=TOKEN, PIN="secre7")
    whole = "".join(pieces).encode()
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    log = tmp_path_factory.mktemp("logs") / "stdout"
    log.write_bytes(whole)
    descriptor = os.open(log, os.O_RDONLY)
    try:
        read = [
            masked_pread(mask, descriptor, end - begin, begin) for begin, end in pairwise(places)
        ]
    finally:
        os.close(descriptor)
    assert b"".join(read) == mask.covered(mask.data(whole))


@given(cut=st.integers(0, len(TOKEN)), before=st.sampled_from(["", "key=", "\r", "a\n"]))
def test_a_log_that_grows_shows_no_more_than_three_characters(tmp_path_factory, cut, before):
    mask = masker(tmp_path_factory, TOKEN=TOKEN)
    whole = f"{before}{TOKEN}\n".encode()
    now = whole[: len(before) + cut]
    first = mask.read(lambda size, at: now[at : at + size], 0, len(now), hold=True)
    rest = mask.read(lambda size, at: whole[at : at + size], len(first), len(whole))
    assert len(first + rest) == len(whole)
    assert not any(part.encode() in first + rest for part in (TOKEN[:4], TOKEN[3:7], TOKEN[-4:]))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"key": "00", "secrets": [{"size": -1}]}'])
def test_a_file_that_somebody_spoilt_masks_nothing_and_harms_nobody(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert masker_of(tmp_path) is None


@pytest.mark.parametrize(
    "spoilt",
    [b"", b"[]", b"{}", b'{"key": 1}', b"[" * 100_000],
    ids=["nothing", "a list", "no key", "a key that is none", "nested without end"],
)
def test_a_job_is_run_again_whose_code_has_spoilt_what_is_known_of_its_secrets(tmp_path, spoilt):
    former, folder = tmp_path / "former", tmp_path / "folder"
    former.mkdir()
    folder.mkdir()
    (former / FILE).write_bytes(spoilt)
    assert masker_of(former) is None
    write_marks(folder, [("TOKEN", TOKEN)], former)
    assert masker_of(folder).text(TOKEN) == MASK


def test_a_job_is_run_again_whose_code_has_put_a_pipe_there(tmp_path):
    former = tmp_path / "former"
    former.mkdir()
    os.mkfifo(former / FILE)
    write_marks(tmp_path, [("TOKEN", TOKEN)], former)
    assert masker_of(tmp_path).text(TOKEN) == MASK


def test_no_secret_leaves_no_file(tmp_path):
    write_marks(tmp_path, [("SHORT", "12345")])
    assert not (tmp_path / FILE).exists()
    assert masker_of(tmp_path) is None


def test_a_weak_secret_does_not_change_what_an_outcome_is_called_by(tmp_path_factory):
    mask = masker(tmp_path_factory, ACCOUNT="python")
    value = {"format": "pickle", "type": "str", "file": "var-password.pkl", "size": 9}
    error = {"type": "ValueError", "module": "builtins", "message": "password: no", "frames": []}
    told = {
        "version": 1,
        "kind": "returned",
        "exit_code": 0,
        "python": "3.11",
        "result": {"format": "outputs", "names": ["password"], "warning": "a python"},
        "outputs": {"password": {**value, "warning": None}},
        "error": {**error, "notes": ["python"], "cause": {**error, "message": "returned"}},
    }
    folder = tmp_path_factory.mktemp("weak")
    write_marks(folder, [("PASSWORD", "python"), ("USER", "returned"), ("OTHER", "password")])
    task = folder / "tasks" / "worker-0"
    task.mkdir(parents=True)
    (task / "outcome.json").write_text(json.dumps(told))
    outcome = read_outcome(task)
    assert (outcome.kind, outcome.python, outcome.result.names) == (
        "returned",
        "3.11",
        ("password",),
    )
    assert outcome.outputs["password"].file == "var-password.pkl"
    assert outcome.result.warning == "a ******"
    assert outcome.error.message == "<secret>: no"
    assert outcome.error.notes == ("******",)
    assert outcome.error.cause.message == "<secret>"
    named = {"outputs": {"why": {"type": "str", "warning": "a python"}}}
    assert mask.outcome(named) == {"outputs": {"why": {"type": "str", "warning": "a ******"}}}


def test_a_machine_that_opens_no_more_files_shows_nothing_unmasked(tmp_path, monkeypatch):
    write_marks(tmp_path, [("TOKEN", TOKEN)])
    with monkeypatch.context() as patch:

        def full(*_args):
            raise OSError(errno.EMFILE, "too many open files")

        patch.setattr(masking.os, "open", full)
        with pytest.raises(OSError, match="too many"):
            masker_of(tmp_path)
    assert masker_of(tmp_path).text(TOKEN) == MASK


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / FILE)
    assert masker_of(tmp_path) is None


def test_a_long_one_that_is_cut_within_a_character_is_masked_all_the_same(tmp_path_factory):
    long = "ab" + "".join(chr(0x4E00 + number) for number in range(700))  # 3 bytes each
    text = masker(tmp_path_factory, LONG=long).text(f"{long[:400]} …")
    assert text.startswith("<secret LONG>***")


def task_of_a_job(tmp_path):
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    task = paths.task("worker-0")
    task.root.mkdir(parents=True)
    write_marks(paths.root, [("TOKEN", TOKEN)])
    return task


@pytest.mark.parametrize("before", range(170, 200, 7))
def test_a_message_of_progress_is_masked_before_it_is_cut(tmp_path, before):
    task = task_of_a_job(tmp_path)
    told = {"fraction": 0.5, "message": "x" * before + TOKEN}
    task.progress.write_text(json.dumps(told))
    message = Progress(task).poll(last=True).message
    assert message == ("x" * before + MASK)[: len(message)]
    progress = Progress(task)
    progress.hear(json.dumps({"unused": "x" * before + TOKEN}).encode())
    progress.poll(last=True)
    assert progress.unused == message


@pytest.mark.parametrize("cut", [5, 20, len(TOKEN)])
def test_an_epoch_with_half_a_secret_shows_none_of_it(tmp_path, cut, monkeypatch):
    # By one key in three thousand "Epoch" looks like the secret's beginning, and is held back.
    monkeypatch.setattr(os, "urandom", bytes)
    task = task_of_a_job(tmp_path)
    task.stderr.write_text("")
    task.stdout.write_text(f"Epoch 3/5 key={TOKEN[:cut]}")
    progressed = Progress(task).poll(last=True)
    assert progressed.fraction == 0.6
    assert TOKEN[:4] not in progressed.message


@pytest.mark.parametrize(
    "secret", ["Größe-über-allem", 'it\'s "so" <secret> & \\n', "tab\tand\x7fmore"]
)
def test_a_secret_within_something_is_masked_as_that_writes_it(tmp_path_factory, secret):
    mask = masker(tmp_path_factory, PASSWORD=secret)
    forms = [
        str({"a": secret}),
        ascii([secret]),
        str(KeyError(secret)),
        json.dumps({"a": secret}),
        json.dumps([secret], ensure_ascii=False),
        html.escape(secret),
        html.escape(secret, quote=False),
        "https://me:" + quote(secret, safe="") + "@host",
        "?p=" + quote_plus(secret),
    ]
    for form in forms:
        shown = mask.text(form)
        assert "<secret" in shown, form
        assert not any(part in shown for part in (secret[:6], secret[-4:]))


def test_half_a_character_in_one_hinders_no_job(tmp_path_factory):
    mask = masker(tmp_path_factory, LONG="half \ud800, \udcff")
    assert mask.text("half \ud800, \udcff!") == "<secret LONG>!"
