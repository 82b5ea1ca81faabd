"""An experiment of milliseconds, installed as a user's package would be."""

from __future__ import annotations

import textwrap
from pathlib import Path

from fleet.experiments.store import Store, Work

MODULE = '''
"""Two plus two, measured."""

import os
import time
from functools import partial
from pathlib import Path

from fleet.experiments.base import Cell, Experiment, above, at_most, fact, within
from core.errors import DataError


def measure(setting, *, base):
    setting.say(f"counting to {base}")
    if base == 7 and setting.seed == 13:
        raise DataError("seed 13 is unlucky; choose another")
    if os.environ.get("TOY_WAITS"):
        Path(os.environ["TOY_WAITS"]).joinpath(str(os.getpid())).touch()
        time.sleep(60)
    return {"value": base + setting.seed + (100 if setting.fidelity == "reference" else 0)}


EXPERIMENT = Experiment(
    title="Toy",
    about="What is *two*?",
    fidelities=("paper", "reference"),
    runs=lambda fidelity: {"two": partial(measure, base=2), "seven/of 9": partial(measure, base=7)},
    cells=lambda fidelity: [
        Cell("two", fact("two", "value"), paper=2.0, target=within(0.6, of=2.0)),
        Cell("seven", fact("seven/of 9", "value"), target=above(fact("two", "value")), unit="", note="of 9"),
        Cell("small", fact("two", "value"), target=at_most(1)),
        Cell("free", fact("two", "value")),
    ],
    parameters={"rounds": 3},
)
'''


def install(folder: Path) -> None:
    """Make `toy` an experiment for whoever has `folder` on its path."""
    (folder / "toyexperiment.py").write_text(textwrap.dedent(MODULE))
    facts = folder / "toyexperiment-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toyexperiment\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[edgestill.experiments]\ntoy = toyexperiment:EXPERIMENT\n")


def filled(folder: Path, seeds: tuple[int, ...] = (0, 1), fidelity: str = "paper") -> Store:
    """A store as if the toy's runs had been made."""
    store = Store(folder)
    store.make()
    for seed in seeds:
        store.write(Work("two", fidelity, seed), {"value": 2 + seed}, 1.5)
        store.write(Work("seven/of 9", fidelity, seed), {"value": 7 + seed}, 1.5)
    return store
