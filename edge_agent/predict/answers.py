"""Requests for predictions and their answers as bytes, over HTTP and over MQTT alike. Imports no torch.

A request is one of

    an .npy file       an array of one sample, or of N
    a picture          PNG, JPEG, ... where Pillow is installed
    JSON               {"inputs": nested lists of one sample, or of N}, and anything as "id"

and the answer JSON: `predictions`, one {"label", "class", "probability"} per input, `probabilities` by class, and the
fields that identify the model. A request that cannot be answered is answered {"error": ...}.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from core.errors import DataError
from edge_agent.predict.images import decode_input
from edge_agent.predict.model import Model, Prediction

__all__ = ["MAX_INPUTS", "answer_request", "model_facts"]

MAX_INPUTS = 1024  # of one request
MAX_ERROR = 500


def answer_request(model: Model, body: bytes, *, most: int = MAX_INPUTS) -> dict[str, Any]:
    """The answer to a request; DataError if the request is unusable."""
    if not body:
        raise DataError("the request is empty; send an .npy file, a picture, or JSON with inputs")
    identity: dict[str, Any] = {}
    if body.lstrip()[:1] == b"{":
        fields = _json(body)
        inputs: object = fields.get("inputs")
        if inputs is None:
            raise DataError('the request has no inputs; send {"inputs": [...]}')
        identity = {"id": fields["id"]} if isinstance(fields.get("id"), str | int) else {}
    else:
        inputs = decode_input(body, model.card.input, "the request")
    if isinstance(inputs, list) and len(inputs) > most and len(inputs) != model.card.input.shape[0]:
        raise DataError(f"{len(inputs):,} inputs in one request, the limit is {most:,}")
    if isinstance(inputs, np.ndarray) and inputs.shape[1:] == model.card.input.shape and len(inputs) > most:
        raise DataError(f"{len(inputs):,} inputs in one request, the limit is {most:,}")
    return {**identity, **_facts(model.predict(inputs))}


def model_facts(model: Model) -> dict[str, Any]:
    """The fields that identify the model."""
    card = model.card
    return {"prototype": card.prototype, "round": card.round, "model": card.sha256 or card.base or None}


def _facts(prediction: Prediction) -> dict[str, Any]:
    probabilities = np.round(prediction.probabilities.astype(np.float64), 6)
    rows = zip(prediction.labels, prediction.classes.tolist(), probabilities, strict=True)
    card = prediction.card
    return {
        "predictions": [
            {"label": label, "class": number, "probability": float(row[number])} for label, number, row in rows
        ],
        "probabilities": probabilities.tolist(),
        "prototype": card.prototype,
        "round": card.round,
        "model": card.sha256 or card.base or None,
    }


def _json(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request is not JSON ({str(error)[:100]})") from None
    assert isinstance(fields, dict), "it starts with a brace"
    return fields
