"""``%submarine tensorboard``: in the cell, through the Jupyter server where our extension runs."""

from __future__ import annotations

from html import escape

from IPython.display import display
from submarine_engine.command import Command
from submarine_engine.history import default_home
from submarine_engine.tensorboard import Board, boards, wait
from submarine_engine.tensorboard.asked import asked, stop_asked

from submarine_magics.server import server_of_kernel
from submarine_magics.show import Listing, say
from submarine_magics.workbench import Workbench

_HEIGHT = 700


def show_tensorboard(_: Workbench, command: Command) -> object:
    """Show a TensorBoard in the cell; or list those that run, or end them."""
    home = default_home()
    if "stop" in command.values:
        stopped = stop_asked(home, command.values)
        for board in stopped:
            say(f"TensorBoard over {board.wanted.words} ended")
        if not stopped:
            say("no TensorBoard runs")
        return None
    if "list" in command.values:
        found = boards(home)
        rows = [(board.id, board.wanted.words, board.address) for board in found]
        return Listing(found, ("ID", "SHOWS", "ADDRESS"), rows)
    board = wait(home, asked(home, command.values))
    display(mimebundle(board), raw=True)
    return None


def mimebundle(board: Board) -> dict[str, str]:
    """Return a TensorBoard for a cell: a frame where Jupyter's server brings it, else a link."""
    title = f"TensorBoard over {board.wanted.words}"
    server = server_of_kernel()
    if server is None:
        link = f'<a href="{escape(board.address)}" target="_blank" rel="noopener">TensorBoard</a>'
        html = f"<p>{link} over {escape(board.wanted.words)}, on the notebook's own machine</p>"
        return {"text/html": html, "text/plain": f"{title}: {board.address}"}
    path = f"{server.base_url.rstrip('/')}{board.path}"
    html = (
        f'<iframe src="{escape(path)}" title="{escape(title)}" width="100%" height="{_HEIGHT}" '
        f'style="border:0" loading="lazy"></iframe><p><a href="{escape(path)}" target="_blank" '
        'rel="noopener">TensorBoard in a page of its own</a></p>'
    )
    return {"text/html": html, "text/plain": f"{title}: {path}"}
