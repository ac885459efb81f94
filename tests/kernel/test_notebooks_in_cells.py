"""Notebook servers on the cluster, started, listed and stopped in a cell."""

from __future__ import annotations


def test_a_notebook_is_started_listed_and_stopped_by_magics(kernel):
    started = kernel.run("%submarine notebook start --detach --gpus 0 --name here")
    assert started.reply["status"] == "ok"
    assert [one for one in started.of_type("display_data") if "here" in str(one["data"])]
    assert "here" in kernel.run("%submarine notebook list").value
    stopped = kernel.run("%submarine notebook stop here")
    assert "is being stopped" in stopped.text
    kernel.run("%submarine job wait here")
    assert "here" not in str(kernel.run("%submarine notebook list").value)
    refused = kernel.run("%submarine notebook kernel install")
    assert "has a meaning only in a terminal" in refused.error
