"""``tensorboard``: open one over jobs, list them, end them."""

from __future__ import annotations

from submarine_engine.cli import exits
from submarine_engine.cli.output import Output
from submarine_engine.command.parser import Command
from submarine_engine.history import default_home
from submarine_engine.tensorboard import Board, boards, wait
from submarine_engine.tensorboard.asked import asked, stop_asked


def tensorboard(command: Command, output: Output) -> int:
    """Open a TensorBoard and write its address; or list those that run, or end them."""
    home = default_home()
    if "stop" in command.values:
        stopped = stop_asked(home, command.values)
        for board in stopped:
            _write(output, board, f"{board.id} ended: {board.wanted.words}")
        if not stopped:
            output.note("no TensorBoard runs")
    elif "list" in command.values:
        for board in boards(home):
            _write(output, board, f"{board.id}  {board.address}  {board.wanted.words}")
    else:
        wanted = asked(home, command.values)
        output.note(f"TensorBoard over {wanted.words}")
        board = wait(home, wanted)
        _write(output, board, board.address)
        output.note(
            "The address is yours alone: it holds the key. It opens on this machine; from another, "
            f"bring its port here first: ssh -L {board.port}:127.0.0.1:{board.port} …"
        )
    return exits.OK


def _write(output: Output, board: Board, text: str) -> None:
    if output.json:
        told = {"id": board.id, "address": board.address, "port": board.port, "pid": board.pid}
        output.data({**told, **board.wanted.to_json()})
    else:
        output.line(text)
