"""A Kubernetes of one's own on this machine: real daemons, on loopback, for trying and for tests.

::

    cluster = KubernetesCluster()
    cluster.up(nodes=2, gpus=4)   # returns when a pod could run
    cluster.environment()         # KUBECONFIG, PATH with kubectl
    cluster.down()                # leaves nothing behind, in the kernel neither
"""

from submarine_engine.installer.kubernetes.cluster import (
    KUBERNETES_NAME,
    KubernetesCluster,
    KubernetesPlan,
)

__all__ = ["KUBERNETES_NAME", "KubernetesCluster", "KubernetesPlan"]
