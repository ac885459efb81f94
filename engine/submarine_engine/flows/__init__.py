"""A notebook as a flow: its cells as nodes that a scheduler, or we ourselves, run in their order.

`model` says what a flow is, `build` makes one of a notebook, `node` runs one node of one run.
"""
