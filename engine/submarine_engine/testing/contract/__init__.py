"""What every cluster promises, as tests: import them all into a test module of yours."""

from submarine_engine.testing.contract.attempts import *  # noqa: F403 - the tests, here and below
from submarine_engine.testing.contract.displays import *  # noqa: F403
from submarine_engine.testing.contract.elastic import *  # noqa: F403
from submarine_engine.testing.contract.ending import *  # noqa: F403
from submarine_engine.testing.contract.gpus import *  # noqa: F403
from submarine_engine.testing.contract.life import *  # noqa: F403
from submarine_engine.testing.contract.logs import *  # noqa: F403
from submarine_engine.testing.contract.post_mortem import *  # noqa: F403
from submarine_engine.testing.contract.refusals import *  # noqa: F403
from submarine_engine.testing.contract.save import *  # noqa: F403
from submarine_engine.testing.contract.secrets import *  # noqa: F403
from submarine_engine.testing.contract.several import *  # noqa: F403
