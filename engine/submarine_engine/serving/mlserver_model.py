"""The one model that MLServer serves here: MLflow's, given by MLServer's own codecs what it takes.

MLServer imports the class by its name. What it comes with for MLflow needs the whole of MLflow.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mlserver import MLModel
from mlserver.codecs import NumpyRequestCodec, PandasCodec

served: Any = None
"""The model, loaded."""


class Model(MLModel):  # type: ignore[misc] # of a package that has no types here
    """Brings a request to the model, and its answer back."""

    async def load(self) -> bool:
        """Return at once: what keeps a model from being loaded is the job's own error."""
        return True

    async def predict(self, payload: Any) -> Any:  # noqa: ANN401 - MLServer's
        """Return what the model says of an inference request.

        Parameters
        ----------
        payload
            What it is asked; its own content type counts, where it names one.
        """
        columns = len(payload.inputs) > 1 or _has_columns()
        given = self.decode_request(
            payload, default_codec=PandasCodec if columns else NumpyRequestCodec
        )
        # In a thread: whether the server is well can be asked meanwhile.
        answer = await asyncio.to_thread(served.predict, given)
        return self.encode_response(answer, default_codec=NumpyRequestCodec)


def _has_columns() -> bool:
    """Return whether the model's signature names what it takes."""
    schema = served.metadata.get_input_schema()
    return schema is not None and schema.has_input_names()
