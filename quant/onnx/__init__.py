"""ONNX graphs of prototypes: exported, checked, filled with weights, quantized, and read in a sandbox.

`export` needs torch; reading and running a graph does not. Imports `quant`, `wire` and `core`.
"""
