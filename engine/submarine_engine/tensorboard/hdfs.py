"""``hdfs://`` for TensorBoard: it reads other file systems through fsspec, and that by WebHDFS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing

from submarine_engine.errors import ClusterError, UnsupportedError
from submarine_engine.tensorboard.found import Source


def let_fsspec_read(remote: Sequence[Source]) -> None:
    """Let fsspec in this process read the user's HDFS: ``hdfs://…``, ``webhdfs://…``.

    Raises
    ------
    UnsupportedError
        The packages for it are not installed.
    ConfigError, ClusterError
        There is no Hadoop configuration, or HDFS does not answer.
    """
    try:
        import fsspec  # noqa: PLC0415 - an extra
        import requests  # noqa: F401, PLC0415 - likewise
    except ImportError as error:
        raise UnsupportedError(
            f"reading {remote[0].place} needs a package that is not installed: {error.name}",
            where="tensorboard",
            fix="pip install 'submarine-notebook[yarn]'",
        ) from error
    if all(source.place.startswith("webhdfs:") for source in remote):
        return  # the address says all
    from submarine_engine.clusters.yarn.hadoop import load_hadoop  # noqa: PLC0415 - an extra's
    from submarine_engine.clusters.yarn.hdfs import open_hdfs  # noqa: PLC0415 - likewise
    from submarine_engine.clusters.yarn.jobhdfs import Hdfs  # noqa: PLC0415 - likewise

    hdfs = open_hdfs(load_hadoop())
    if hdfs is None:
        raise ClusterError(
            f"{remote[0].place} cannot be read: HDFS does not answer",
            where="tensorboard",
            fix="see `submarine doctor --cluster yarn`",
        )
    with closing(hdfs):
        told = hdfs.container_environment()
    # As jobs on YARN have it by plugin and environment.
    fsspec.register_implementation("hdfs", Hdfs, clobber=True)
    for name, options in told.items():
        fsspec.config.conf[name.removeprefix("FSSPEC_").lower()] = json.loads(options)
