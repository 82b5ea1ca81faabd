"""Integers in ONNX graphs: how 2, 4 and 8 bits are stored, static int8 for serving, MatMulNBits.

What enters: integer types, their storage and their operators. Graphs as such are for `quant/onnx/`. No torch.
"""
