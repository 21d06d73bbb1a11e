"""JSON of the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from flask import Response
from flask.json.provider import DefaultJSONProvider


class JsonProvider(DefaultJSONProvider):
    """Writes answers by orjson, which takes NumPy's arrays as they are and writes null for NaN and Infinity."""

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> Response:
        """The response to a view's return value."""
        value = self._prepare_response_obj(args, kwargs)
        try:
            raw: str | bytes = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError:
            # texts of an index may hold lone surrogates, which the standard library writes as escapes
            raw = self.dumps(value, default=_plain) + "\n"
        return Response(raw, mimetype=self.mimetype)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else DefaultJSONProvider.default(value)
