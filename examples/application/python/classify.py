"""Classify pictures with the board's model, and pick up each new model that the agent publishes.

python classify.py /var/lib/edgestill-model leaf.png ...           once
python classify.py /var/lib/edgestill-model --watch leaf.png ...   again whenever the model is replaced
"""

import sys
import time

from edgestill.device import EdgestillError, Model

SECONDS = 1.0  # between two looks at the card


def main(folder: str, *pictures: str) -> None:
    """Classify the pictures, once or after every reload."""
    watching = "--watch" in pictures
    files = [picture for picture in pictures if picture != "--watch"]
    model = Model(folder)
    while True:
        answer = model.predict(files)
        for file, label, row in zip(files, answer.labels, answer.probabilities, strict=True):
            print(f"{file} {label} {row.max():.3f} round {model.card.round}", flush=True)
        if not watching:
            return
        while not model.reload():
            time.sleep(SECONDS)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("classify.py: usage: classify.py FOLDER [--watch] PICTURE ...")
    try:
        main(*sys.argv[1:])
    except EdgestillError as error:
        sys.exit(f"classify.py: {error}")
