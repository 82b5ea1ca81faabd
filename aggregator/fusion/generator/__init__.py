"""FedGen's generator and FedDistill's label logits: what is published beside a model for devices to learn from."""
