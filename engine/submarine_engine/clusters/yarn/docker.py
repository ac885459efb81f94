"""Containers in a Docker image: what YARN's Docker runtime is asked for, by environment."""

from __future__ import annotations

import re
from collections.abc import Sequence

from submarine_engine.errors import UnsupportedError

# The pattern of Hadoop's own DockerLinuxContainerRuntime, which refuses after the GPU is granted.
_IMAGE = re.compile(
    r"(([a-zA-Z0-9.-]+)(:[0-9]+)?/)?([a-z0-9_./-]+)(:[a-zA-Z0-9_][\w.-]{0,127})?"
    r"(@sha256:[0-9a-f]{64})?"
)
_LONGEST = 255
_MOUNT = re.compile(
    r"(/[^:\x00,]*):(/[^:\x00,]*)(:(?:r[ow])(?:\+(?:r?(?:shared|slave|private)))?)?"
)

# As every Docker cluster of YARN has it: without them, the user has no name in the container.
_ACCOUNTS = ("/etc/passwd:/etc/passwd:ro", "/etc/group:/etc/group:ro")


def docker_environment(image: str, mounts: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment that makes YARN start a container from `image`.

    Variables of Hadoop's "Launching Applications Using Docker Containers".

    Parameters
    ----------
    image
        ``[registry[:port]/]name[:tag][@sha256:…]``.
    mounts
        ``SOURCE:DESTINATION[:ro|rw]``, absolute paths; besides the node's accounts. The cluster
        admits only those that its administrator allows.

    Raises
    ------
    UnsupportedError
        The image or a mount is not written as YARN reads it.
    """
    if len(image) > _LONGEST or not _IMAGE.fullmatch(image):
        raise UnsupportedError(
            f"{image!r} cannot name an image",
            where="--docker_image",
            fix="write [REGISTRY/]NAME[:TAG], the name in lower case",
        )
    for mount in mounts:
        if not _MOUNT.fullmatch(mount):
            raise UnsupportedError(
                f"{mount!r} is no mount", where="mounts", fix="write /SOURCE:/DESTINATION[:ro|rw]"
            )
    modes = [mount if mount.count(":") > 1 else f"{mount}:ro" for mount in mounts]
    return {
        "YARN_CONTAINER_RUNTIME_TYPE": "docker",
        "YARN_CONTAINER_RUNTIME_DOCKER_IMAGE": image,
        "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS": ",".join(dict.fromkeys((*_ACCOUNTS, *modes))),
    }
