"""``hdfs://…`` for fsspec in a job: pandas, dask, xarray and plain ``fsspec.open`` read it.

Sent with each job as the module ``submarine_hdfs``, and found by fsspec as plugins are (entry point
group ``fsspec.specs``). fsspec's own way to HDFS needs Hadoop's native library on the node; where
that is, it is used, else WebHDFS.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from fsspec.implementations.webhdfs import WebHDFS
from submarine_runtime.delegation import current
from submarine_runtime.webhdfs import ca_file


class WebHdfs(WebHDFS):  # type: ignore[misc] # fsspec is not typed
    """``webhdfs://…`` with the token that is good now: a job may outlive the one it was sent."""

    def _connect(self) -> None:
        super()._connect()
        if ca := ca_file():
            self.session.verify = ca
            self.session.trust_env = False  # a bundle of the environment's would come first

    def _call(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - fsspec's own
        if "delegation" in self.pars:
            self.pars["delegation"] = current(self.pars["delegation"])
        return super()._call(*arguments, **options)


class HdfsOverHttp(WebHdfs):
    """The cluster's HDFS; fsspec fills the parameters in from ``FSSPEC_HDFS``.

    Parameters
    ----------
    asked
        Host and port of the address that is read; empty for the default file system.
    default
        Those of the file system that this one is.
    options
        As fsspec's own `WebHDFS` takes them.
    """

    protocol: ClassVar[str] = "hdfs"

    def __init__(self, *, asked: str = "", default: str = "", **options: Any) -> None:  # noqa: ANN401 - fsspec's own
        if asked not in ("", default):
            raise ValueError(
                f"hdfs://{asked} is not this cluster's HDFS, hdfs://{default}: read it by "
                "webhdfs://NAMENODE:PORT/…, or install pyarrow and Hadoop's libhdfs on the nodes"
            )
        super().__init__(**options)

    def _connect(self) -> None:
        super()._connect()
        self.session.trust_env = False  # proxies lead out of the cluster

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:  # noqa: ANN401 - one path, or a list of them
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        plain = path.partition("://")[2].partition("/")[2] if "://" in path else path
        return f"/{plain.strip('/')}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        asked = urlsplit(path).netloc if "://" in path else ""
        return {"asked": asked} if asked else {}


def _has_native_library() -> bool:
    named = os.environ.get("ARROW_LIBHDFS_DIR")
    home = os.environ.get("HADOOP_HOME")
    folders = [Path(named)] if named else []
    folders += [Path(home, "lib", "native")] if home else []
    return any((folder / "libhdfs.so").exists() for folder in folders)


def _implementation() -> type:
    if _has_native_library():
        try:
            from fsspec.implementations.arrow import HadoopFileSystem  # noqa: PLC0415 - if it can
            from pyarrow import fs  # noqa: F401, PLC0415 - what it needs
        except ImportError:
            return HdfsOverHttp
        else:
            return HadoopFileSystem  # type: ignore[no-any-return]
    return HdfsOverHttp


Hdfs = _implementation()
