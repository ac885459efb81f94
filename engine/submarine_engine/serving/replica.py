"""What a replica's job runs: a scoring server over one model, on a port of its task's loopback.

MLServer where it is installed, which speaks the Open Inference Protocol (V2); else the server that
comes with MLflow itself (``/invocations``). The port is told as the task's message; the front asks
there whether the server is ready.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_runtime import progress
from submarine_runtime.call_frames import Reader
from submarine_runtime.worker import calls_path

from submarine_engine.errors import JobError, UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.serving.model import flavours, unpack

SERVERS = {"mlserver": "/v2/health/ready", "mlflow": "/ping"}
"""The servers that there are, the first that is installed unless one is asked for, and where each
tells whether it is ready."""

LOOPBACK = "127.0.0.1"

ALONE = 120.0
"""Seconds without a word from the front after which a replica ends: a front that is killed is there
again within some, and one that was ended by ``job kill``, or with its machine, never is."""
_LOOK = 0.5  # seconds: against the two minutes of `ALONE` nothing, and a look costs nothing


def run_replica(packed: bytes, called: str, server: str, alone: float = ALONE) -> None:
    """Serve a model until the job is asked to end.

    Parameters
    ----------
    packed
        The model, as `submarine_engine.serving.model.packed` gave it.
    called
        Its name in the server's addresses.
    server
        Of `SERVERS`; empty for the first that is installed.
    alone
        Seconds without a word from the front after which it ends.

    Raises
    ------
    JobError
        The front is gone.
    UnsupportedError
        The server or MLflow is not installed in the job's Python.
    Exception
        The model does not load: whatever its code raises. Its job is not begun again.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    chosen = server or ("mlserver" if importlib.util.find_spec("mlserver") else "mlflow")
    watch = _FrontWatch(alone)
    try:
        _serve_packed(packed, called, chosen)
    except KeyboardInterrupt:
        if not watch.is_alone:
            raise
    if watch.is_alone:
        raise _final(
            JobError(
                f"the front is gone: no word from it for {alone:g} s, so the replica has ended",
                fix="serve the model anew: submarine serve start",
            )
        )


def _serve_packed(packed: bytes, called: str, server: str) -> None:
    progress(0.0, "loads the model")
    with tempfile.TemporaryDirectory(prefix="submarine-served-") as folder:
        try:
            unpack(packed, Path(folder))
            model = load(folder, server)
        except Exception as error:
            _final(error)
            raise
        _serve[server](model, called)


class _FrontWatch:
    """Notes whether the front is still there, and interrupts the process once it is not.

    The front tells so where a pool's controller tells its workers, so it is heard on any cluster.
    """

    def __init__(self, alone: float) -> None:
        self.is_alone = False
        self._after = alone
        self._reader = Reader(calls_path(os.environ["SUBMARINE_TASK_DIR"]))
        threading.Thread(target=self._listen, name="front", daemon=True).start()

    def _listen(self) -> None:
        heard = time.monotonic()
        while time.monotonic() - heard < self._after:
            time.sleep(_LOOK)
            with suppress(OSError, ValueError):  # what cannot be read is no word, as silence is
                if any(True for _ in self._reader.read()):
                    heard = time.monotonic()
        self.is_alone = True
        # Both servers end by it, and so does a model that is being loaded.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def load(folder: str, server: str) -> Any:  # noqa: ANN401 - MLflow's
    """Return a model, loaded.

    Parameters
    ----------
    folder
        In MLflow's format.
    server
        Of `SERVERS`.

    Raises
    ------
    UnsupportedError
        The server, MLflow, or a package that the model needs is not installed in the job's Python.
    Exception
        It does not load: whatever its code raises.
    """
    try:
        import mlflow.pyfunc  # noqa: PLC0415 - an extra

        if server == "mlserver":
            import mlserver  # noqa: F401, PLC0415 - likewise
    except ImportError as error:
        raise UnsupportedError(
            f"the job's Python cannot serve models: {error}", fix=install_extra("serve")
        ) from error
    told = flavours(Path(folder))
    if backend := (told.get("keras") or {}).get("keras_backend"):
        os.environ["KERAS_BACKEND"] = str(backend)  # that of whoever saved it, before it is loaded
    try:
        model = mlflow.pyfunc.load_model(folder)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(str(error.name).partition(".")[0], error.name)
        raise UnsupportedError(
            f"the model needs the package {package}, which the job's Python does not have: {error}",
            where=", ".join(sorted({*told} - {"python_function"})),
            fix=f"install it there: pip install {package}",
        ) from error
    return _OfOneType(model) if "pytorch" in told else model


_PACKAGES = {"sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Packages that are called otherwise than what is imported of them."""


class _OfOneType:
    """A model of PyTorch that is given numbers of the type of its own.

    Requests in JSON have one type of floating point numbers, which NumPy takes for ``float64``, and
    PyTorch's layers take no other than their own.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - MLflow's
        self._model = model
        weights: Any = getattr(model.get_raw_model(), "parameters", tuple)()
        self._types = {str(one.dtype) for one in weights if one.is_floating_point()}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - MLflow's
        return getattr(self._model, name)

    def predict(self, data: Any, params: Any = None) -> Any:  # noqa: ANN401 - MLflow's
        """Return what the model says, as MLflow's own does."""
        if self._types == {"torch.float32"} and getattr(data, "dtype", None) == "float64":
            data = data.astype("float32")
        return self._model.predict(data, params=params)


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


def _ended(server: str) -> Exception:
    return _final(RuntimeError(f"{server} has ended by itself: its log says why"))


def _final(error: Exception) -> Exception:
    """Return an error after which the job is not begun again: that would come to the same."""
    with suppress(AttributeError):
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
