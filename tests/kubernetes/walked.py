"""What a keeper tells its jobs' pods, told as its other effects are: see `tests.local.walked`."""

from __future__ import annotations

import sys

from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.files import PodFiles

from tests.local import walked

CHANGES = frozenset({"choose", "piece", "unpack", "bring", "begin", "say", "signal", "end"})
"""The questions to a pod that change something; a WebSocket raises no audit events of its own."""


class Walk(walked.Walk):
    """Kills a keeper just before it begins a program in a pod, or asks a pod for something, too."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        real = PodFiles._say

        def say(files, what, body, **more):
            if what in CHANGES:
                sys.audit("pod.ask", what)
            return real(files, what, body, **more)

        PodFiles._say = say
        begun = Kubernetes.open

        def begin(api, pod, container, command):
            sys.audit("pod.ask", "open")
            return begun(api, pod, container, command)

        Kubernetes.open = begin
