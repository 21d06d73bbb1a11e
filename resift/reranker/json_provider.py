"""JSON of the answers."""

from __future__ import annotations

import json
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
        return Response(to_json(self._prepare_response_obj(args, kwargs)) + b"\n", mimetype=self.mimetype)


def to_json(value: Any) -> bytes:
    """The JSON of a value, in UTF-8."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError:
        # texts of an index may hold lone surrogates, which the standard library writes as escapes
        return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else DefaultJSONProvider.default(value)
