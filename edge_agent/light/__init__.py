"""Light mode: trains a predictor on latents of a frozen ONNX extractor, with NumPy and ONNX Runtime. No torch."""
