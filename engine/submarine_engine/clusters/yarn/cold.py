"""Jobs by an application of their own, which ends with the job."""

from __future__ import annotations

import threading
from contextlib import suppress

from submarine_engine.clusters.yarn.application import application
from submarine_engine.clusters.yarn.master import FINAL, over_words, wait_running
from submarine_engine.clusters.yarn.way import Asked, Way, raise_unless_silent
from submarine_engine.errors import ClusterError, SubmarineError


class Cold(Way):
    """By an application of the job's own, which ends with it."""

    ends_with_job = True
    _thread: threading.Thread | None = None
    _failure: SubmarineError | None = None
    _is_over = False

    def ask(self) -> Asked | None:
        """Ask the application's master, as soon as it runs."""
        if self._failure is not None:
            raise self._failure
        if self._is_over:
            return self._known
        if self._app is None:
            if self._thread is None:
                self._services.line.leave(self._paths.job_id)
                if not self.app_id and not self.gang.may_ask():
                    return None
                self._thread = threading.Thread(target=self._start, daemon=True)
                self._thread.start()
            self._thread.join(0.02)
            return self._enough()  # of a job that runs: its log needs no master
        try:
            if self._board.step(self._app, self._seen):
                self._note_down()
            return self._look_for_all()
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            raise_unless_silent(self.app_id, error)
            if self._enough() is None:
                self._raise_if_over()
            return self._enough()

    def _raise_if_over(self) -> None:
        with suppress(ClusterError):
            report = self._services.rm.application(self.app_id)
            if report["state"] in FINAL:
                self._failure = ClusterError(
                    f"the application ended before the job began: {over_words(report)}",
                    where=self.app_id,
                )

    def give_back(self) -> None:
        """End the application."""
        self.withdraw()
        self.close()
        self._app, self._thread, self.app_id = None, None, ""
        self._forget()

    def withdraw(self) -> None:
        """End the application."""
        if self.app_id:
            with suppress(ClusterError):
                self._services.rm.kill(self.app_id)

    def end_beside(self) -> None:
        """End the TensorBoard beside the job."""
        self._board.end(self._app)

    def close(self) -> None:
        """Close the way to the master."""
        if self._app is not None:
            self._app.close()

    def _start(self) -> None:
        try:
            if not self.app_id:
                beside = self._board.worker_environment()
                environments = {
                    r.name: {**self._environment(r, None), **beside} for r in self._spec.roles
                }
                described = application(
                    self._spec, self._services.folder, self._launch,
                    job_id=self._paths.job_id, environments=environments,
                    board=self._board,
                )  # fmt: skip
                self.app_id = self._services.driver.submit(described)
                if self._spec.priority is not None:
                    self._services.rm.set_priority(self.app_id, self._spec.priority)
                self._instances = {
                    task: f"{role.name}_{number}"
                    for role in self._spec.roles
                    for number, task in enumerate(role.tasks)
                }
                self._note_down()
            wait_running(self._services.rm, self.app_id)
            self._app = self._services.driver.connect(self.app_id)
        except SubmarineError as error:
            self._failure = None if self._known else error
            self._is_over = True
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            self._failure = ClusterError(f"{type(error).__name__}: {error}")
