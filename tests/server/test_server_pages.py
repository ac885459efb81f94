"""A cluster's pages of a job, which are its logs' and which are others: told apart alike by all."""

from __future__ import annotations

import json
import re

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.clusters.local.backend import LocalBackend
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.records import open_job
from submarine_jupyter.cards import card as served_card
from submarine_jupyter.page import page
from submarine_magics.card import mimebundle
from submarine_magics.card.display import JOB_TYPE

from tests.jobs import bundle_of, until

LINKS = {
    "log": "http://node.example:8042/log",
    "worker-0": "http://node.example:8042/worker-0",
    "application_1": "http://rm.example:8088/application_1",
}
LABELS = {"log": "THEIR LOG", "worker-0": "worker-0", "application_1": "application_1"}


def _links(part):
    """Yield address and text of each link of a tree."""
    if isinstance(part, list):
        tag, attributes, children = part
        if tag == "a":
            yield attributes["href"], *children
        for child in children:
            yield from _links(child)


@pytest.mark.usefixtures("submit")
def test_the_page_has_the_cards_table_of_tasks_and_leads_to_all_logs(cluster, tmp_path):
    spec = JobSpec(name="team", roles=(Role(count=18, resources=Resources(gpus=0)),))
    job_id = cluster.submit(spec, bundle_of("print(1)"), workdir=tmp_path)
    until(lambda: cluster.status(job_id).state.final)
    text = page(job_id)
    table = re.search(r'<details class="smc-tasks" open>.*?</details>', text, re.DOTALL)[0]
    assert all(f"<td>worker-{number}</td>" in table for number in range(18))
    assert "18 succeeded" in table
    logs = set(re.findall(r"output/(worker-[0-9]+)/file", text))
    assert logs == {f"worker-{number}" for number in range(18)}


def test_the_cluster_s_pages_are_the_same_in_all_cards_of_a_job(submit, monkeypatch):
    job_id = submit("1", name="paged")
    until(lambda: submit.cluster.status(job_id).state.final)
    monkeypatch.setattr(LocalCluster, "links", lambda *_: dict(LINKS))
    monkeypatch.setattr(LocalCluster, "log_url", lambda *_: LINKS["log"])
    monkeypatch.setattr(LocalBackend, "log_label", "THEIR LOG")
    card = served_card(job_id)
    assert card["links"] == [["application_1", LINKS["application_1"]]]
    assert card["tasks"][0]["log_url"] == LINKS["worker-0"]
    assert (card["log_url"], card["log_label"]) == (LINKS["log"], "THEIR LOG")
    for tree in (json.loads(mimebundle(open_job(job_id))[JOB_TYPE]["tree"]), card["tree"]):
        assert sorted(_links(tree)) == sorted((url, LABELS[name]) for name, url in LINKS.items())
    found = re.findall(r'<a [^>]*href="(http://[^"]*)"[^>]*>([^<]*)</a>', page(job_id))
    assert sorted(found) == sorted((url, LABELS[name]) for name, url in LINKS.items())
