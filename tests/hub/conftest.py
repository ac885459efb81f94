"""A JupyterHub of root's, and two people of the machine's who have a server there."""

from __future__ import annotations

from tests.browser.conftest import browser, playwright
from tests.hub.hub_site import alice, alices, bob, hub, place

__all__ = ["alice", "alices", "bob", "browser", "hub", "place", "playwright"]
