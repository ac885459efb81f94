"""What a job displays, as the server tells it: in its stream, and on the plain page."""

from __future__ import annotations

from itertools import groupby

from submarine_engine.history import JobPaths
from submarine_jupyter.page import page

from tests.jobs import until

HOSTILE = """
from IPython.display import HTML, clear_output, display
display("before the clearing")
clear_output()
display(HTML("<script>alert(1)</script><img src=x onerror=alert(2)>"))
display({"text/plain": "<script>alert(3)</script>"}, raw=True)
display({"text/plain": '"><script>alert(4)</script>', "image/png": "iVBORw0KGgo="}, raw=True)
display({"text/plain": "no picture", "image/png": 'x" onerror="alert(5)'}, raw=True)
display({"text/markdown": "**words**"}, raw=True)
handle = display("first", display_id="one")
handle.update("second")
"""


def shown(submit):
    job_id = submit(HOSTILE)
    until(lambda: submit.cluster.status(job_id).state.final)
    return job_id


def test_the_plain_page_shows_pictures_and_obeys_nothing(server, submit):
    answer = server.get(f"/jobs/{shown(submit)}")
    assert "img-src data:;" in answer.headers["Content-Security-Policy"]
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    html = answer.text[answer.text.index("<h2>worker-0</h2>") :]  # above it stands the script
    assert "<script" not in html
    assert "onerror=alert" not in html
    assert html.count("<img") == 1
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in html
    assert "&lt;script&gt;alert(3)" in html
    for text in ("no picture", "**words**", "&#x27;second&#x27;"):
        assert text in html
    for gone in ("before the clearing", "first", "alert(1)", "alert(5)"):
        assert gone not in html


def test_a_page_shows_the_last_displays_alone(submit):
    job_id = submit(
        "from IPython.display import display\n"
        "for n in range(30): display({'text/plain': f'display {n};' + 'x' * 300_000}, raw=True)"
    )
    until(lambda: submit.cluster.status(job_id).state.final)
    html = page(job_id)
    assert "display 29;" in html
    assert "display 10;" in html  # the last 20
    assert "display 9;" not in html


TALKS = """
import sys
from IPython.display import display
print("one")
print("<b>two</b>", file=sys.stderr)
display({"text/plain": "a figure"}, raw=True)
print("three")
"""


def test_the_plain_page_has_all_in_its_order_with_times_where_they_are_wanted(server, submit):
    job_id = submit(TALKS)
    until(lambda: submit.cluster.status(job_id).state.final)
    plain = server.get(f"/jobs/{job_id}").text
    html = plain[plain.index("<h2>worker-0</h2>") :]
    places = [html.index(text) for text in ("one", "&lt;b&gt;two", "a figure", "three")]
    assert places == sorted(places)
    assert '<span class="err" title="stderr">&lt;b&gt;two' in html
    assert 'class="time"' not in html
    timed = server.get(f"/jobs/{job_id}", params={"times": "since", "wrap": "0"}).text
    assert timed.count('<span class="time">0:') == 3  # within its first minute
    assert '<body class="wide">' in timed
    assert '<a href="?times=clock&amp;wrap=0">clock time</a>' in timed
    hostile = server.get(f"/jobs/{job_id}", params={"times": '"><script>', "wrap": "<b>"}).text
    assert "<script" not in hostile


def test_the_plain_page_looks_again_where_what_is_in_its_way_may_pass(server, submit):
    again = '<meta http-equiv="refresh"'
    job_id = submit("print('hello')")
    until(lambda: submit.cluster.status(job_id).state.final)
    record = JobPaths(server.home, job_id).record
    whole = record.read_text()
    record.write_text("{")
    answer = server.get(f"/jobs/{job_id}")
    record.write_text(whole)
    assert (answer.ok, again in answer.text) == (False, True)
    assert again not in server.get(f"/jobs/{job_id}").text
    unknown = server.get(f"/jobs/{job_id[:-5]}aaaaa")
    assert (unknown.status_code, again in unknown.text) == (404, False)


def test_the_stream_tells_displays_in_their_place(server, submit):
    job_id = submit(
        "print('before')\nfrom IPython.display import HTML, display\n"
        "display(HTML('<b>x</b>'))\nprint('after')"
    )
    told = [(kind, data) for kind, data, _ in server.events(job_id) if kind in ("log", "display")]
    # A line and its end are two writes, which may come one by one.
    kinds = [kind for kind, _ in groupby(kind for kind, _ in told)]
    assert kinds == ["log", "display", "log"]
    [bundle] = [data for kind, data in told if kind == "display"]
    assert bundle["data"]["text/html"] == "<b>x</b>"
