"""The GPUs that NodeManagers count: this machine's own, or declared ones.

A NodeManager asks a program for its GPUs and reads what ``nvidia-smi -q -x`` writes. The answer is
prepared here, from NVML or out of thin air; YARN schedules and accounts either alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

DEFAULT_COUNT = 4

_MIB = 1 << 20
_CARD = """<gpu id="{number}">
<product_name>{name}</product_name><uuid>{uuid}</uuid><minor_number>{minor}</minor_number>
<fb_memory_usage><total>{memory} MiB</total><used>0 MiB</used>\
<free>{memory} MiB</free></fb_memory_usage>
<utilization><gpu_util>0 %</gpu_util></utilization>
<temperature><gpu_temp>30 C</gpu_temp><gpu_temp_max_threshold>90 C</gpu_temp_max_threshold>\
<gpu_temp_slow_threshold>85 C</gpu_temp_slow_threshold></temperature>
</gpu>
"""


class Card(NamedTuple):
    """One GPU: `minor` is the number of its device file, `memory` in mebibytes."""

    name: str
    uuid: str
    minor: int
    memory: int


class Choice(NamedTuple):
    """The GPUs of a cluster.

    Node N has ``cards[N * each:(N + 1) * each]``.
    """

    cards: tuple[Card, ...]
    each: int
    real: bool


def choose_gpus(count: int | None, nodes: int, found: Sequence[Card], port: int) -> Choice:
    """Give each node its GPUs: real ones where there are enough, declared ones otherwise.

    Parameters
    ----------
    count
        GPUs of each node; None shares out what is there, and declares four where nothing is.
    found
        The machine's own, see `find_gpus`.
    port
        The cluster's first: declared GPUs are told apart by it.
    """
    share = len(found) // nodes
    if share and (count is None or 0 < count <= share):
        return Choice(tuple(found), count or share, real=True)
    wanted = DEFAULT_COUNT if count is None else count
    return Choice(declared_gpus(wanted * nodes, port), wanted, real=False)


def declared_gpus(count: int, port: int) -> tuple[Card, ...]:
    """Return GPUs that are only said to be there; no two clusters of a machine have the same."""
    return tuple(Card("Declared GPU", f"GPU-{port:08x}-{n:04x}", n, 16_384) for n in range(count))


def find_gpus() -> tuple[Card, ...]:
    """Return the machine's GPUs as NVML counts them; none where NVML is not there."""
    try:
        import pynvml  # noqa: PLC0415 - an optional extra
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        return tuple(_card(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _card(nvml: Any, index: int) -> Card:  # noqa: ANN401 - a module without types
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = 0
    with suppress(nvml.NVMLError):  # GPUs that share the machine's memory have none to tell
        memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
    return Card(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        minor=int(nvml.nvmlDeviceGetMinorNumber(handle)),
        memory=memory,
    )


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def to_xml(cards: Sequence[Card]) -> str:
    """Return what a NodeManager understands (``GpuDeviceInformationParser`` of Hadoop 3)."""
    rows = [
        _CARD.format(
            number=number, name=escape(card.name), uuid=escape(card.uuid), minor=card.minor,
            memory=card.memory,
        )
        for number, card in enumerate(cards)
    ]  # fmt: skip
    return (
        '<?xml version="1.0"?>\n<nvidia_smi_log>\n<driver_version>0</driver_version>\n'
        f"<attached_gpus>{len(cards)}</attached_gpus>\n{''.join(rows)}</nvidia_smi_log>\n"
    )
