"""Predictions with the board's model: inputs checked and normalized as its card says, through ONNX Runtime.

`model` is the API of `edgestill.device` for applications; `server` answers over HTTP, `worker` over MQTT, in a process
of its own. Imports no torch; only `quant` and `models` modules that need NumPy alone.
"""
