"""Precisions, quantized layers, packing, deltas and ONNX. Import the module you need: some of them import torch."""
