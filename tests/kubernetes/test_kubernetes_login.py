"""Who a kubeconfig says one is: plugins that log in, tokens that run out, silent servers."""

from __future__ import annotations

import json
import logging
import socket
import sys

import pytest
from submarine_engine.clusters.kubernetes import client
from submarine_engine.clusters.kubernetes.client import Kubernetes, RefusedError, within
from submarine_engine.errors import ClusterError, ConfigError
from submarine_engine.testing.jobs import until

from tests.kubernetes.conftest import CLOUD_LOGIN, kubeconfig, logged_in_by


@pytest.fixture
def plugin(tmp_path):
    """Give a credential plugin, as clouds have them: it gives the token of a file."""
    path = tmp_path / "cloud-login"
    path.write_text(CLOUD_LOGIN.format(python=sys.executable, folder=str(tmp_path)))
    path.chmod(0o755)
    (tmp_path / "token").write_text("first")
    return path


@pytest.fixture
def api(server, plugin, tmp_path, monkeypatch):
    config = kubeconfig(tmp_path / "with-plugin", server.url, logged_in_by(plugin))
    monkeypatch.setenv("KUBECONFIG", str(config))
    server.body = {"kind": "PodList", "items": []}
    server.tokens = {"Bearer first"}
    return Kubernetes()


def test_a_token_that_ran_out_is_had_anew_from_the_plugin(api, server, tmp_path):
    assert api.pods("a=b") == []
    server.tokens = {"Bearer second"}
    (tmp_path / "token").write_text("second")
    assert api.pods("a=b") == []
    assert server.seen[-2:] == ["Bearer first", "Bearer second"]
    assert api.pods("a=b") == []
    assert (tmp_path / "calls").read_text() == "xx"  # no question has a login of its own


def test_a_program_in_a_pod_is_begun_with_a_new_token_too(api, server, tmp_path):
    server.tokens = {"Bearer second"}
    (tmp_path / "token").write_text("second")
    with pytest.raises(ClusterError, match="cannot be reached"):  # the double speaks no WebSocket
        api.open("pod-1", "files", ["true"])
    assert server.seen == ["Bearer first", "Bearer second"]


def test_who_is_not_known_any_more_is_told_to_log_in(api, server):
    server.tokens = {"Bearer of-somebody-else"}
    for ask in (lambda: api.pods("a=b"), lambda: api.open("pod-1", "files", ["true"])):
        with pytest.raises(RefusedError, match="expired") as refused:
            ask()
        assert "log in" in refused.value.fix


def test_a_login_that_has_not_helped_is_not_made_again_for_a_while(
    api, server, tmp_path, monkeypatch
):
    """Hundreds of jobs ask: each of them would begin the plugin again and again."""
    server.tokens = {"Bearer of-somebody-else"}
    for _ in range(3):
        for ask in (lambda: api.pods("a=b"), lambda: api.open("pod-1", "files", ["true"])):
            with pytest.raises(RefusedError, match="expired"):
                ask()
    assert (tmp_path / "calls").read_text() == "xx", "once at first, and once to see"
    (tmp_path / "token").write_text("second")
    server.tokens = {"Bearer second"}
    monkeypatch.setattr(client, "_LOGS_IN_EVERY", 0.0)
    assert api.pods("a=b") == []
    server.tokens = {"Bearer third"}
    (tmp_path / "token").write_text("third")
    monkeypatch.setattr(client, "_LOGS_IN_EVERY", 600.0)
    assert api.pods("a=b") == [], "at once after one that has helped"


def test_the_client_itself_runs_no_plugin_for_each_question(api, server, plugin, tmp_path):
    """It would where the plugin says when its token ends, and then gives it again."""
    old = "status=dict(token=token, expirationTimestamp='2020-01-01T00:00:00Z')"
    plugin.write_text(plugin.read_text().replace("status=dict(token=token)", old))
    (tmp_path / "calls").write_text("")
    api = Kubernetes()
    for _ in range(3):
        assert api.pods("a=b") == []
    assert (tmp_path / "calls").read_text() == "x"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "#!/bin/sh\necho 'the SSO session has expired' >&2\nexit 255\n",
            "SSO session has expired",
        ),
        ("#!/bin/sh\necho no json\n", "failed to decode"),
        ("#!/bin/sh\necho '{}'\n", "malformed response"),
        (None, "No such file"),
    ],
)
def test_a_plugin_that_does_not_log_in_is_told(server, tmp_path, monkeypatch, text, words):
    path = tmp_path / "spoilt"
    if text is not None:
        path.write_text(text)
        path.chmod(0o755)
    config = kubeconfig(tmp_path / "one-kubeconfig", server.url, logged_in_by(path))
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(ConfigError, match=words) as refused:
        Kubernetes()
    assert "plugin" in refused.value.what
    assert refused.value.fix
    assert not server.asked


def test_a_plugin_that_waits_for_somebody_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "_LOGS_IN_WITHIN", 0.3)
    config = kubeconfig(tmp_path / "one-kubeconfig", server.url, logged_in_by("sleep", "60"))
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(ConfigError, match="has not ended within"):
        Kubernetes()


def test_what_the_client_logs_elsewhere_is_not_the_plugins(api, server, plugin):
    with client._said_of_plugins() as said:
        logging.getLogger("somebody").error("something else")
    assert said == []


def test_a_server_that_takes_a_connection_and_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "_OPENS_WITHIN", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "one-kubeconfig", url)))
        with pytest.raises(ClusterError, match=r"no answer within 0\.3 s"):
            Kubernetes().open("pod-1", "files", ["true"])


def test_what_comes_too_late_is_let_go_of():
    come, late = socket.socketpair(), []
    try:
        with pytest.raises(TimeoutError):
            within(0.05, lambda: come[0].recv(1), late=late.append)
        come[1].send(b"x")
        until(lambda: late == [b"x"])
        with pytest.raises(ZeroDivisionError):
            within(60.0, lambda: 1 / 0)
        assert within(60.0, lambda: json.loads("7")) == 7
    finally:
        for end in come:
            end.close()
