"""Side artifacts for devices to learn from: FedGen's generator and FedDistill's label logits."""
