"""The model of a running job, brought to the user's path while training goes on."""

from submarine_engine.clusters.saving.asking import (
    Asked,
    Hook,
    absolute,
    can_save,
    default_name,
    expect_running,
    in_order,
    save,
)
from submarine_engine.clusters.saving.targets import FolderTarget, Target

__all__ = [
    "Asked",
    "FolderTarget",
    "Hook",
    "Target",
    "absolute",
    "can_save",
    "default_name",
    "expect_running",
    "in_order",
    "save",
]
