"""What a replica's job runs: a scoring server over one model, on a port of its task's loopback.

MLServer where it is installed, which speaks the Open Inference Protocol (V2); else the server that
comes with MLflow itself (``/invocations``). The port is told as the task's message; the front asks
there whether the server is ready.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_runtime import progress

from submarine_engine.errors import UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.serving.model import unpack

SERVERS = {"mlserver": "/v2/health/ready", "mlflow": "/ping"}
"""The servers that there are, the first that is installed unless one is asked for, and where each
tells whether it is ready."""

LOOPBACK = "127.0.0.1"


def run_replica(packed: bytes, called: str, server: str) -> None:
    """Serve a model until the job is asked to end.

    Parameters
    ----------
    packed
        The model, as `submarine_engine.serving.model.packed` gave it.
    called
        Its name in the server's addresses.
    server
        Of `SERVERS`; empty for the first that is installed.

    Raises
    ------
    UnsupportedError
        The server or MLflow is not installed in the job's Python.
    Exception
        The model does not load: whatever its code raises. Its job is not begun again.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    chosen = server or ("mlserver" if importlib.util.find_spec("mlserver") else "mlflow")
    progress(0.0, "loads the model")
    with tempfile.TemporaryDirectory(prefix="submarine-served-") as folder:
        try:
            unpack(packed, Path(folder))
            model = _load(folder, chosen)
        except Exception as error:
            with suppress(AttributeError):  # to begin it again would come to the same
                error.submarine_final = True  # type: ignore[attr-defined] # read by the runtime
            raise
        _serve[chosen](model, called)


def _load(folder: str, server: str) -> Any:  # noqa: ANN401 - MLflow's
    try:
        import mlflow.pyfunc  # noqa: PLC0415 - an extra

        if server == "mlserver":
            import mlserver  # noqa: F401, PLC0415 - likewise
    except ImportError as error:
        raise UnsupportedError(
            f"the job's Python cannot serve models: {error}", fix=install_extra("serve")
        ) from error
    return mlflow.pyfunc.load_model(folder)


def _by_mlflow(model: Any, called: str) -> None:  # noqa: ANN401, ARG001 - MLflow's; it has no name there
    import uvicorn  # noqa: PLC0415 - comes with MLflow
    from mlflow.pyfunc import scoring_server  # noqa: PLC0415 - an extra

    app = scoring_server.init(model)
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        _tell("mlflow", listener.getsockname()[1])
        config = uvicorn.Config(app, access_log=False, log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
    raise _ended("MLflow's server")  # asked to end, it raises that signal once more


def _by_mlserver(model: Any, called: str) -> None:  # noqa: ANN401 - MLflow's
    from mlserver import MLServer, ModelSettings, Settings  # noqa: PLC0415 - an extra

    from submarine_engine.serving import mlserver_model  # noqa: PLC0415 - likewise

    mlserver_model.served = model
    port, other = _free_ports(2)
    settings = Settings(
        host=LOOPBACK, http_port=port, grpc_port=other, metrics_endpoint=None,
        parallel_workers=0, debug=False,
    )  # fmt: skip
    _tell("mlserver", port)

    async def serve() -> bool:
        server = MLServer(settings)
        stops, asked = server.stop, []

        async def stop(sig: object = None) -> None:
            asked.append(sig is not None)
            await stops(sig)

        server.stop = stop
        await server.start([ModelSettings(name=called, implementation=mlserver_model.Model)])
        return any(asked)

    if not asyncio.run(serve()):
        raise _ended("MLServer")


def _ended(server: str) -> RuntimeError:
    error = RuntimeError(f"{server} has ended by itself: its log says why")
    error.submarine_final = True  # type: ignore[attr-defined] # read by the runtime
    return error


_serve = {"mlserver": _by_mlserver, "mlflow": _by_mlflow}


def _free_ports(number: int) -> list[int]:
    """Return ports that are free now; where one is taken meanwhile, the replica is begun again."""
    taken = [socket.create_server((LOOPBACK, 0)) for _ in range(number)]
    ports = [int(one.getsockname()[1]) for one in taken]
    for one in taken:
        one.close()
    return ports


def _tell(server: str, port: int) -> None:
    progress(0.5, f"{server} at port {port}")
