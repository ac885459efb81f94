"""Webhooks: what is one, who sees its address, and what reaches it."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode

import pytest
from submarine_engine import notify, webhooks
from submarine_engine.cli import main
from submarine_engine.clusters import locks, outbox, store
from submarine_engine.clusters.store import Journal, put_on_record, read_warnings
from submarine_engine.command import parse, to_command
from submarine_engine.config import load_config
from submarine_engine.errors import CommandError, ConfigError, SubmissionError
from submarine_engine.events import Finished
from submarine_engine.history import read_json
from submarine_engine.job import JobSpec, JobState
from submarine_engine.settings import format_value

from tests.jobs import bundle_of, spec_of
from tests.webhook import connect_proxy, receiver

SLACK = "https://hooks.slack.com/services/T0/B0/aVerySecretToken"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    for name in ("https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "start", lambda _: None)  # the tests send by themselves
    return tmp_path / "home"


def over(home, address, *, reason="", state=JobState.SUCCEEDED, **options):
    """Put a job on record that tells `address`, and end it."""
    spec = spec_of(notify=address, **options)
    paths, lock = put_on_record(
        home, "local", spec, bundle_of("1"), home, lambda *_: None, secrets={}
    )
    locks.drop(lock)
    journal = Journal(paths, read_json(paths.record))
    journal.append_last(Finished(state=state, reason=reason))
    journal.close()
    return paths


# What is one.


@pytest.mark.parametrize(
    "text",
    ["", "ftp://example.org/x", "file:///etc/passwd", "https://", "https:///x", "//example.org/x",
     "https://ada:secret@example.org/x", "https://example.org:99999/x", "https://example.org:0/",
     "https://example.org/a b", "https://example.org/\r\nHost: x", "https://exämple.org/",
     "https://example.org\\@127.0.0.1/", f"https://example.org/{'x' * 3000}", "a-b", "[::1"],
)  # fmt: skip
def test_what_is_no_webhook_is_refused_without_a_word_of_it(text, monkeypatch):
    with pytest.raises(CommandError, match="webhook cannot be used") as caught:
        JobSpec(notify=text)
    assert not text or text not in caught.value.what
    if text:
        monkeypatch.setenv("SUBMARINE_NOTIFY", text)
        with pytest.raises(ConfigError) as refused:
            load_config()
        assert text not in refused.value.what


def test_its_address_is_in_no_json_no_repr_and_no_command():
    spec = parse(f"job run --notify {SLACK} a.py").spec
    shown = (json.dumps(spec.to_json()), repr(spec), to_command(spec, "a.py"))
    assert spec.notify == SLACK
    assert not any("aVerySecretToken" in one or "services" in one for one in shown)
    again = JobSpec.from_json(spec.to_json())
    assert again.notify.startswith("hooks.slack.com#")
    assert parse(to_command(again, "a.py")).spec == again == JobSpec.from_json(again.to_json())
    assert webhooks.host(again.notify) == webhooks.host(SLACK) == "hooks.slack.com"
    assert format_value("notify", SLACK) == "hooks.slack.com"


def test_the_settings_are_shown_without_it(monkeypatch, capsys):
    monkeypatch.setenv("SUBMARINE_NOTIFY", SLACK)
    for words in (["config", "show"], ["config", "show", "--json"]):
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert "hooks.slack.com" in shown
        assert "aVerySecret" not in shown


def test_the_record_has_a_reference_and_the_owner_alone_what_it_stands_for(home):
    paths = over(home, SLACK)
    assert b"aVerySecretToken" not in b"".join(
        path.read_bytes() for path in paths.root.rglob("*") if path.is_file()
    )
    named = read_json(paths.record)["spec"]["notify"]
    assert outbox.find(home, named) == SLACK
    (kept,) = (path for path in (home / "webhooks").iterdir() if path.is_file())
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    # A job that runs again, and one that names it so, tells the same.
    assert outbox.accept(JobSpec(notify=named), home).notify == named
    kept.write_text("https://example.org/another")  # somebody has changed it
    assert outbox.find(home, named) is None
    with pytest.raises(SubmissionError, match="is not known here"):
        outbox.accept(JobSpec(notify=named), home)


def test_it_comes_from_the_option_a_secret_or_the_setting(home, monkeypatch):
    def accepted(**spec):
        found = outbox.accept(JobSpec(**spec), home).notify
        return found and outbox.find(home, found)

    monkeypatch.setenv("CHAT", f" {SLACK}\n")
    assert accepted() is None
    assert accepted(notify="CHAT") == SLACK
    monkeypatch.setenv("SUBMARINE_NOTIFY", "CHAT")
    assert accepted() == SLACK
    assert accepted(notify="https://example.org/x") == "https://example.org/x"
    assert outbox.accept(JobSpec(notify="none"), home).notify == "none"
    assert outbox.accept(JobSpec(parent="20260101-000000-aaaaa"), home).notify is None
    with pytest.raises(SubmissionError, match="no value is known for NO_SUCH") as caught:
        accepted(notify="NO_SUCH")
    assert "keyring set submarine NO_SUCH" in caught.value.fix
    monkeypatch.setenv("CHAT", "ftp://aVerySecretToken")
    with pytest.raises(CommandError, match="does not begin with https") as refused:
        accepted(notify="CHAT")
    assert "aVerySecretToken" not in str(refused.value)


# Where it may lead.


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0",  # noqa: S104 - nobody listens there
     "127.0.0.1", "127.1", "2130706433", "0x7f.1", "017700000001", "localhost", "[::1]",
     "[::]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
     "[2002:7f00:1::]", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
     "224.0.0.1", "255.255.255.255", "[fe80::1]", "[fd00::1]", "[ff02::1]",
     "[fec0::1]", "[64:ff9b:1::7f00:1]"],
)  # fmt: skip
def test_what_is_not_of_the_public_network_is_refused_before_a_byte_is_sent(host):
    with pytest.raises(notify.WebhookError, match="none of the public network") as caught:
        notify.post(f"http://{host}:9/secret", {}, "key")
    assert caught.value.lasting
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0",  # noqa: S104 - as above
     "169.254.169.254", "::ffff:169.254.169.254", "fe80::1%eth0", "224.0.0.1"],
)  # fmt: skip
def test_some_addresses_are_refused_whatever_is_set(text):
    with pytest.raises(notify.WebhookError):
        notify.check_ip(text, private=True)


def test_a_private_one_is_allowed_by_the_setting_and_a_public_one_always():
    for text in ("127.0.0.1", "::1", "10.1.2.3", "fd00::1", "100.64.0.1"):
        notify.check_ip(text, private=True)
    for text in ("1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"):
        notify.check_ip(text, private=False)


def test_a_name_that_leads_home_is_refused_and_is_looked_up_once(monkeypatch):
    asked = []

    def lookup(host, port, **_):
        asked.append(host)
        found = ["1.1.1.1", "127.0.0.1"]
        return [(2, 1, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(notify.socket, "getaddrinfo", lookup)
    with pytest.raises(notify.WebhookError, match=r"127\.0\.0\.1 is none"):
        notify.post("http://rebinding.example/x", {}, "key")
    assert asked == ["rebinding.example"]


def test_each_address_of_a_name_is_tried_until_one_takes_it(monkeypatch):
    found, real = ["::1", "127.0.0.2", "127.0.0.1"], notify.socket.getaddrinfo

    def lookup(host, port, *rest, **options):
        if host != "two.example":
            return real(host, port, *rest, **options)
        return [(2, 1, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(notify.socket, "getaddrinfo", lookup)
    with receiver() as server:
        address = server.url.replace("127.0.0.1", "two.example")
        notify.post(address, {"a": 1}, "key", private=True)
        assert [told for _, _, told in server.got] == [{"a": 1}]
        found[:] = ["127.0.0.2", "127.0.0.3"]
        with pytest.raises(notify.WebhookError, match="cannot be reached: Connection refused"):
            notify.post(address, {}, "key", private=True)
        found[:] = ["127.0.0.1", "169.254.169.254"]
        with pytest.raises(notify.WebhookError, match=r"169\.254\.169\.254 is none"):
            notify.post(address, {}, "key", private=True)
        assert len(server.got) == 1


# What comes of it.


def test_a_redirect_is_not_followed(home):
    with receiver(307) as server:
        paths = over(home, f"{server.url}/a")
        notify.send(paths, private=True, pauses=(0, 0))
        assert [path for path, _, _ in server.got] == ["/a"]
    (warning,) = read_warnings(paths)
    assert "redirects are not followed" in warning
    assert read_json(paths.root / outbox.NOTIFIED)["state"] == "failed"


def test_a_job_is_told_once_with_what_it_came_to(home):
    with receiver() as server:
        paths = over(home, f"{server.url}/a?b=c", reason="a\x1b[31m <!channel>", name="mnist")
        assert list(outbox.due(home)) == [paths.job_id]
        notify.send(paths, private=True)
        notify.send(paths, private=True)
        outbox.note(paths, read_json(paths.record))  # as whoever writes the end again
        notify.send(paths, private=True)
    ((path, headers, told),) = server.got
    assert path == "/a?b=c"
    assert headers["Idempotency-Key"] == told["id"] == paths.job_id
    assert (told["name"], told["state"], told["cluster"]) == ("mnist", "succeeded", "local")
    assert told["reason"] == "a [31m <!channel>"
    assert told["gpu_seconds"] == {"queued": 0, "held": 0, "busy": 0}
    assert told["submitted"].endswith("Z")
    assert list(outbox.due(home)) == []
    assert not read_warnings(paths)
    assert read_json(paths.root / outbox.NOTIFIED)["state"] == "sent"


def test_what_passes_is_tried_again_and_what_does_not_is_not(home):
    with receiver(503, 429, 200) as server:
        paths = over(home, server.url)
        notify.send(paths, private=True, pauses=(0, 0, 0))
        assert len(server.got) == 3
        assert {headers["Idempotency-Key"] for _, headers, _ in server.got} == {paths.job_id}
        assert read_json(paths.root / outbox.NOTIFIED)["state"] == "sent"
    with receiver(404) as server:
        paths = over(home, server.url)
        notify.send(paths, private=True, pauses=(0, 0))
        assert len(server.got) == 1
        assert "it answers HTTP 404" in read_warnings(paths)[0]
    with receiver(*[500] * 9) as server:
        paths = over(home, server.url)
        notify.send(paths, private=True, pauses=(0, 0))
        assert len(server.got) == 3
    notify.send(over(home, server.url), private=True, pauses=(0,))  # nobody listens by now


def test_one_that_hangs_is_given_up_in_time(home, monkeypatch):
    monkeypatch.setattr(notify, "_PATIENCE", 0.2)
    with receiver() as server:
        server.answers_now.clear()
        paths = over(home, server.url)
        notify.send(paths, private=True, pauses=(0,))
        assert read_json(paths.root / outbox.NOTIFIED)["tries"] == 2
    assert "does not answer in time" in read_warnings(paths)[0]


def test_one_that_answers_byte_by_byte_is_given_up_too(home, monkeypatch):
    monkeypatch.setattr(notify, "_DEADLINE", 0.2)
    with receiver() as server:
        server.answers_now.clear()
        with pytest.raises(notify.WebhookError, match="does not answer in time"):
            notify.post(server.url, {}, "key", private=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Give a certificate of 127.0.0.1 that nobody vouches for, and its key, in one file."""
    folder = tmp_path_factory.mktemp("certificate")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
               "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
               "-keyout", folder / "key", "-out", folder / "cert"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    pem = folder / "both.pem"
    pem.write_text((folder / "key").read_text() + (folder / "cert").read_text())
    return pem


def test_a_certificate_that_nobody_vouches_for_is_an_error(certificate, monkeypatch):
    with receiver(certificate=certificate) as server:
        with pytest.raises(
            notify.WebhookError, match=r"certificate is refused: self.sig"
        ) as caught:
            notify.post(server.url, {}, "key", private=True)
        assert caught.value.lasting
        assert not server.got
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        notify.post(server.url, {"a": 1}, "key", private=True)
        assert server.got[0][2] == {"a": 1}


def test_a_proxy_of_the_environment_brings_it_there(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with receiver(certificate=certificate) as server, connect_proxy() as proxy:
        host = server.url.removeprefix("https://")
        monkeypatch.setenv("https_proxy", f"http://ada:p%40ss@127.0.0.1:{proxy.port}")
        notify.post(f"{server.url}/secret", {"a": 1}, "key", private=True)
        assert server.got[0][0] == "/secret"
        (asked,) = proxy.asked
        assert asked.startswith(f"CONNECT {host} ")
        assert b64encode(b"ada:p@ss").decode() in asked
        assert "secret" not in asked
        with pytest.raises(notify.WebhookError, match="none of the public network"):
            notify.post(server.url, {}, "key")
        proxy.refuses = True
        with pytest.raises(notify.WebhookError, match="by the proxy") as caught:
            notify.post(server.url, {}, "key", private=True)
        assert not caught.value.lasting
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        notify.post(server.url, {"b": 2}, "key", private=True)
        assert server.got[1][2] == {"b": 2}


def test_slack_is_told_in_its_own_form_and_no_text_of_a_job_becomes_a_mention(home):
    paths = over(home, SLACK, reason="lost <!channel> & <https://evil|x>", state=JobState.FAILED)
    status = store.StatusCache().status(paths)
    told = notify.message(read_json(paths.record), status, notify.GpuTime(held=7200))
    form = notify.slack({**told, "log": "https://logs.example/a?b=c&d"})
    text = json.dumps(form)
    assert "<!channel>" not in text
    assert "<https://evil" not in text
    assert "&lt;!channel&gt; &amp;" in form["text"]
    assert form["blocks"][0]["text"]["text"].startswith(
        "*<https://logs.example/a?b=c&amp;d|job>* failed after"
    )
    assert "2.00 GPU-hours" in text


def test_who_sends_was_killed_the_next_one_sends_it(home):
    with receiver() as server:
        left, last = over(home, server.url), over(home, server.url)
        lock = locks.take(outbox.entry_of(last))
        notify.send(last, private=True)  # another one is at it
        assert not server.got
        locks.drop(lock)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SUBMARINE_NOTIFY_PRIVATE", "true")
            patch.setenv("SUBMARINE_HOME", str(home))
            notify.main([str(home), last.job_id])
        assert {told["id"] for _, _, told in server.got} == {left.job_id, last.job_id}
    assert list(outbox.due(home)) == []


def test_a_job_that_cannot_be_read_keeps_no_other_from_being_told(home, monkeypatch):
    monkeypatch.setenv("SUBMARINE_NOTIFY_PRIVATE", "true")
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    with receiver() as server:
        waiting = sorted((over(home, server.url) for _ in range(4)), key=lambda one: one.job_id)
        spoilt, unreadable, noted, left = waiting
        spoilt.record.write_text("")
        unreadable.record.unlink()
        unreadable.record.mkdir()
        (noted.root / outbox.NOTIFIED).write_text("")
        last = over(home, server.url)
        notify.main([str(home), last.job_id])
        assert {told["id"] for _, _, told in server.got} == {
            one.job_id for one in (noted, left, last)
        }
    assert list(outbox.due(home)) == [unreadable.job_id]


def test_a_job_that_is_not_over_and_one_that_is_deleted_are_not_told(home):
    paths = over(home, "http://127.0.0.1:9/")
    events = paths.events.read_text()
    paths.events.write_text(events.splitlines(keepends=True)[0])
    notify.send(paths, private=True, pauses=())
    assert list(outbox.due(home)) == [paths.job_id]  # whoever writes its end sees to it
    paths.record.unlink()
    notify.send(paths, private=True, pauses=())
    assert list(outbox.due(home)) == []


def test_a_webhook_that_is_kept_no_more_is_said(home):
    paths = over(home, "http://127.0.0.1:9/x")
    for path in (home / "webhooks").iterdir():
        if path.is_file():
            path.unlink()
    notify.send(paths, private=True, pauses=())
    assert "127.0.0.1:9 was not told" in read_warnings(paths)[0]


def test_an_end_that_is_written_while_somebody_looks_for_it_is_told(home, monkeypatch):
    """Who writes it finds the lock taken, by the sender of another job, and leaves it to that."""
    spec = spec_of(notify="https://example.org/x")
    paths, lock = put_on_record(
        home, "local", spec, bundle_of("1"), home, lambda *_: None, secrets={}
    )
    locks.drop(lock)
    outbox.note(paths, read_json(paths.record))
    look, told = notify._send, []

    def look_slowly(paths, **options):
        found = look(paths, **options)
        if not found:
            journal = Journal(paths, read_json(paths.record))
            journal.append_last(Finished(state=JobState.SUCCEEDED, reason=""))
            journal.close()
        return found

    monkeypatch.setattr(notify, "_send", look_slowly)
    monkeypatch.setattr(notify, "_deliver", lambda paths, *_: told.append(paths.job_id))
    notify.send(paths)
    assert told == [paths.job_id]
    assert not outbox.entry_of(paths).exists()
