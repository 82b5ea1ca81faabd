"""Local losses beyond cross-entropy, by paper: FedGen's generated latents, FedDistill's label logits, personal models.

`select` chooses by the job; `side_artifact` reads the artifact published along with a model.
"""
