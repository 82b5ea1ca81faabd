"""The board's model in an application: load, predict, reload when the agent has a new one.

    from edgestill.device import Model

    model = Model("/var/lib/edgestill-model")  # the folder of [model] publish, a card, or an ONNX file
    answer = model.predict("leaf.png")         # or an array of one image or of N, or a list of files
    print(answer.labels, answer.probabilities)
    model.reload()                             # True if the agent has replaced it; or: with model.watch(): ...

Needs NumPy and ONNX Runtime, and Pillow for pictures; no torch. docs/application.md has more.
"""

from core.errors import DataError, EdgestillError, ModelError
from edge_agent.predict.model import Model, Prediction
from models.card import InputCard, ModelCard

__all__ = ["DataError", "EdgestillError", "InputCard", "Model", "ModelCard", "ModelError", "Prediction"]
