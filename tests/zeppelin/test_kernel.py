"""The kernel of a session, driven as the interpreter drives it."""

from __future__ import annotations

import pytest
from submarine_zeppelin import kernel as kernels

UNANSWERED = """
session = get_ipython().kernel.session
send = session.send
def all_but_replies(stream, kind, *args, **options):
    return None if kind == "execute_reply" else send(stream, kind, *args, **options)
session.send = all_but_replies
"""


@pytest.fixture
def kernel():
    kernel = kernels.Kernel()
    kernel.start()
    yield kernel
    kernel.close()


def test_a_kernel_that_is_idle_and_does_not_reply_is_not_waited_for(kernel, monkeypatch):
    kinds = []
    assert kernel.run("1", {}, lambda kind, _: kinds.append(kind))["status"] == "ok"
    assert "execute_result" in kinds
    monkeypatch.setattr(kernels, "_REPLY", 0.5)
    assert kernel.run(UNANSWERED, {}, lambda *_: None)["status"] == "aborted"
    assert kernel.lives


def test_a_kernel_that_died_says_that_jobs_go_on(kernel):
    with pytest.raises(kernels.KernelDiedError, match=r"the kernel ended: .* jobs go on"):
        kernel.run("import os; os._exit(1)", {}, lambda *_: None)
