"""Two real ResourceManagers over one store of states (high availability), switched by hand.

Facts are of Hadoop 3.4's "ResourceManager High Availability": without automatic failover both start
as standby, and ``yarn rmadmin -transitionToActive`` makes one of them the active one. With Kerberos
both are one service of one host, and their pages are ``https``.
"""

from __future__ import annotations

import subprocess

from submarine_engine.installer import Daemon, HadoopCluster, Wanted, realm
from submarine_engine.installer.daemons import Starter
from submarine_engine.installer.java import fetch_jars, find_java
from submarine_engine.installer.plan import ClusterPlan, hold_block
from submarine_engine.installer.sites import site_xml, write_files

from tests.hadoop import Yarn
from tests.jobs import until

KEYS = ("address", "scheduler.address", "resource-tracker.address", "admin.address")
MANAGERS = {"rm1": "resourcemanager", "rm2": "resourcemanager-2"}
PORTS = {"rm1": 0, "rm2": 100}
"""Where the ports of each begin in the cluster's block; the second's are nobody else's."""
PATIENCE = 180.0


class Pair:
    """A cluster of one node with a pair of ResourceManagers; the first is the active one.

    Parameters
    ----------
    secure
        Whether it asks for Kerberos; then it has an HDFS, too.
    """

    def __init__(self, home, *, secure=False) -> None:
        self.cluster = HadoopCluster(home, "secure-pair" if secure else "pair")
        layout, java = self.cluster.layout, find_java()
        more = fetch_jars(java, pom=realm.POM) if secure else None
        with hold_block(layout.root) as port:
            wanted = Wanted(gpus=4, nodes=1, hdfs=secure, secure=secure)
            jars = fetch_jars(java)
            self.plan = ClusterPlan.make(wanted, port=port, java=java, jars=jars, secure_jars=more)
            write_files(self.plan, layout)
            self.webs = {
                name: f"{self.plan.scheme}://{self.plan.host}:{port + at + len(KEYS)}"
                for name, at in PORTS.items()
            }
            for folder in (layout.conf, layout.node_conf(0)):
                self._make_a_pair(folder / "yarn-site.xml")
            beside = ["kdc", "namenode", "datanode"] if secure else []
            Starter(self.plan, layout, PATIENCE).start(beside)
            for name in PORTS:
                self.start(name)
        if secure:
            realm.take_ticket(self.plan, layout)
        self.activate("rm1")
        self.cluster.daemon("nodemanager-0").start()
        self.cluster.wait_ready()
        environment = self.cluster.environment()
        namenode = self.plan.namenode_web if secure else ""
        self.yarn = Yarn(self.cluster, layout.conf, environment, self.webs["rm1"], namenode)

    def _make_a_pair(self, site):
        own, host = "yarn.resourcemanager", self.plan.host
        pages = "webapp.https.address" if self.plan.secure else "webapp.address"
        told = {
            f"{own}.ha.enabled": "true",
            f"{own}.ha.rm-ids": ",".join(PORTS),
            f"{own}.ha.automatic-failover.enabled": "false",
            f"{own}.cluster-id": "pair",
        }
        for name, at in PORTS.items():
            told[f"{own}.hostname.{name}"] = host
            for place, key in enumerate([*KEYS, pages], self.plan.port + at):
                told[f"{own}.{key}.{name}"] = f"{host}:{place}"
        single = site_xml(told).partition("<configuration>\n")[2]
        site.write_text(site.read_text().replace("</configuration>\n", single))

    def daemon(self, name):
        return Daemon(MANAGERS[name], self.plan, self.cluster.layout)

    def start(self, name):
        self.daemon(name).run("-D", f"yarn.resourcemanager.ha.id={name}")

    def activate(self, name):
        """Make one the active one, as soon as it takes orders."""

        def done():
            # Forced: the other may be dead, and cannot be asked then.
            told = ["yarn", "rmadmin", "-transitionToActive", "--forceactive", name]
            environment = self.cluster.environment()
            ran = subprocess.run(told, env=environment, capture_output=True, check=False)
            return ran.returncode == 0

        until(done, PATIENCE)

    def put_by(self, name):
        """Make one a standby; it still takes orders."""
        told = ["yarn", "rmadmin", "-transitionToStandby", "--forcemanual", name]
        subprocess.run(told, env=self.cluster.environment(), input=b"Y\n", check=True)
