"""Light mode: trains a predictor on latents of an ONNX extractor, with NumPy and ONNX Runtime. No torch."""
