"""A Hadoop cluster of one's own on this machine: real daemons on loopback, from pinned artifacts.

::

    cluster = HadoopCluster()
    cluster.up(Wanted(gpus=4, nodes=3))   # returns when a job could run
    cluster.environment()                 # HADOOP_CONF_DIR, JAVA_HOME, PATH
    cluster.daemon("nodemanager-0").kill()
    cluster.down()                        # leaves nothing behind
"""

from submarine_engine.installer.cluster import DaemonStatus, HadoopCluster, running_clusters
from submarine_engine.installer.daemons import Daemon
from submarine_engine.installer.plan import ClusterPlan, Wanted

__all__ = ["ClusterPlan", "Daemon", "DaemonStatus", "HadoopCluster", "Wanted", "running_clusters"]
