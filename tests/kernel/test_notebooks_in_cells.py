"""Notebook servers on the cluster, started, listed and stopped in a cell."""

from __future__ import annotations

from tests.jobs import LIMIT, until


def test_a_notebook_is_started_listed_and_stopped_by_magics(kernel):
    started = kernel.run("%submarine notebook start --detach --gpus 0 --name here")
    assert started.reply["status"] == "ok"
    assert [one for one in started.of_type("display_data") if "here" in str(one["data"])]
    assert "here" in kernel.run("%submarine notebook list").value
    # Before it runs there is nothing to keep, and a message says so.
    until(lambda: "goes on" in kernel.run("%submarine notebook keep here").text, LIMIT)
    stopped = kernel.run("%submarine notebook stop here")
    assert "is being stopped" in stopped.text
    kernel.run("%submarine job wait here")
    listed = kernel.run("%submarine notebook list")
    assert "here" not in str(listed.value)
    assert "no notebook runs; %submarine notebook start begins one" in listed.text
    refused = kernel.run("%submarine notebook kernel install")
    assert "has a meaning only in a terminal" in refused.error
