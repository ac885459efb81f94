"""Jobs by a warm master: an application that is kept for a notebook, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.yarn.application import application, service_name, shape_key
from submarine_engine.clusters.yarn.master import FINAL, Master
from submarine_engine.clusters.yarn.versions import check_versions, read_probe
from submarine_engine.clusters.yarn.way import Asked, Way, raise_unless_silent
from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    import skein

    from submarine_engine.clusters.yarn.keeper import Services
    from submarine_engine.job import JobSpec

_OUTSTANDING = ("WAITING", "REQUESTED")


def master_key(services: Services, spec: JobSpec, launch: Mapping[str, Any]) -> str:
    """Return what tells masters apart: whose they are, and the shape of their containers."""
    return f"{services.session(launch)}:{shape_key(spec, launch['environment'])}"


def has_master(services: Services, spec: JobSpec, launch: Mapping[str, Any]) -> bool:
    """Whether a master that would do for such a job is kept already."""
    return services.masters.keeps(master_key(services, spec, launch))


def take_master(services: Services, spec: JobSpec, launch: Mapping[str, Any]) -> Master:
    """Return the master of such jobs, for one job more; it may still be starting."""

    def make() -> skein.ApplicationSpec:
        return application(spec, services.folder, launch, job_id=None, environments={})

    key, session = master_key(services, spec, launch), services.session(launch)
    probed = bool(launch["probed"])
    return services.masters.take(key, session, spec.queue, make, probed=probed)


class Warm(Way):
    """Through the notebook's own master: ready, and without a GPU between jobs."""

    _master: Master | None = None

    @property
    def ahead(self) -> int:
        """How many tasks asked the same master before this one's, and still wait."""
        mine = set(self._instances.values())
        seen = list(self._seen.values())  # in the order of asking
        first = next((n for n, container in enumerate(seen) if container.id in mine), len(seen))
        asked = sum(str(container.state) in _OUTSTANDING for container in seen[:first])
        return asked + self._services.line.before(self._paths.job_id)

    @property
    def has_master(self) -> bool:
        """Whether a master that would do is kept already."""
        return has_master(self._services, self._spec, self._launch)

    def ask(self) -> Asked | None:
        """Ask the master, as soon as it runs."""
        if self._app is None:
            if self._master is None:
                self._services.line.name(self._paths.job_id, self._key)
                self._master = take_master(self._services, self._spec, self._launch)
            if not self._master.ready.wait(0.02):
                if not self._known:
                    self.app_id = self._master.app_id
                return self._enough()  # of a job that runs: its log needs no master
            if self._master.failure is not None:
                self._services.masters.drop(self._master)
                if (known := self._enough()) is not None:
                    return known
                raise self._master.failure
            self._check_probe(self._master)
            self._app, self.app_id = self._master.app, self._master.app_id
        try:
            if self._is_asked() or (self._may_ask() and self._add()):
                self._services.line.leave(self._paths.job_id)
            return self._look_for_all()
        except Exception as error:  # noqa: BLE001 - gRPC's own as well
            raise_unless_silent(self.app_id, error)
            if self._enough() is None:
                self._begin_anew()
            return self._enough()

    def give_back(self) -> None:
        """End what came, and stand in the line again."""
        self.withdraw()
        self._forget()
        self._services.line.join(self._paths.job_id)
        self._services.line.name(self._paths.job_id, self._key)

    def withdraw(self) -> None:
        """End the job's own containers."""
        if self._app is not None:
            for instance in self._instances.values():
                with suppress(Exception):
                    self._app.kill_container(instance)

    def close(self) -> None:
        """Give the master back."""
        self._services.line.leave(self._paths.job_id)
        if self._master is not None:
            self._services.masters.give(self._master)
            self._master = None

    def _begin_anew(self) -> None:
        """Forget a master that is gone, before the job got anything of it."""
        with suppress(ClusterError):
            if self._services.rm.application(self.app_id)["state"] in FINAL:
                if self._master is not None:
                    self._services.masters.drop(self._master)
                    self.close()
                self._app, self.app_id = None, ""
                self._forget()

    @property
    def _key(self) -> str:
        return master_key(self._services, self._spec, self._launch)

    def _check_probe(self, master: Master) -> None:
        """Refuse, before a GPU is asked for, what the interpreter there cannot run."""
        if master.probe is None or self._known:
            return
        found = read_probe(master.probe, self._launch["python"])
        needed = self._launch["needed"]
        check_versions(self._launch["here"], found["python"], needed=needed, found=found)

    def _is_asked(self) -> bool:
        return len(self._instances) == sum(len(role.tasks) for role in self._spec.roles)

    def _may_ask(self) -> bool:
        if not self._services.line.is_turn(self._paths.job_id):
            return False
        return bool(self._instances) or self.gang.may_ask()

    def _add(self) -> bool:
        """Ask for what was not asked for yet, as far as that can be done now; whether it is all.

        skein tells requests apart by a priority that it counts on from the *lowest* outstanding one
        (YARN's priorities compare the other way round): where two are outstanding, a third may take
        the place of the second, which then waits for ever. Jobs stand in line here instead.
        """
        assert self._app is not None  # noqa: S101 - `ask` has it
        assert self._master is not None  # noqa: S101 - likewise
        with self._master.asking:
            for role in self._spec.roles:
                for task in role.tasks:
                    if task in self._instances:
                        continue
                    alone = self._master.jobs == 1 and not self._instances
                    if not alone and len(self._app.get_containers(states=_OUTSTANDING)) > 1:
                        return False
                    added = self._app.add_container(
                        service_name(role), self._environment(role, task)
                    )
                    self._instances[task] = added.id
                    self._note_down()
        return True
