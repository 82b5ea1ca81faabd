"""The received models as an ensemble: their logits on unlabeled or synthetic samples, combined and scored."""
