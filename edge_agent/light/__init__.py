"""Light mode: a predictor learns on latents of a frozen ONNX extractor, by NumPy and ONNX Runtime. Imports no torch."""
