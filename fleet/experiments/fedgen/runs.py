"""What FedGen's tables share: a fleet followed to its end, and facts about its scores."""

from __future__ import annotations

import time

from fleet.experiments.base import Fact, Facts, Setting
from fleet.experiments.fedgen.plans import MODEL, Plan

__all__ = ["follow", "honest", "reference"]

#: Rounds at the end that are all scored, on the whole test set too; those in which users are scored as an ensemble.
LAST, TOGETHER = 10, 5


def follow(setting: Setting, *, plan: Plan, dataset: str = "mnist", ensemble: bool = False) -> Facts:
    """Run the fleet of `plan`; scores by round, in percent (`scores.py`), and CPU seconds."""
    import torch

    from fleet.data import hold_out, load
    from fleet.experiments.fedgen.fleet import Fleet
    from fleet.experiments.fedgen.scores import ensemble_score, own_score, slice_score, whole_score
    from fleet.experiments.fedgen.stack import Stack
    from fleet.experiments.fedgen.users import make_users

    torch.set_num_threads(1)
    start = time.process_time()
    data = load(dataset)
    users = make_users(data if len(data.y_test) else hold_out(data), plan, seed=setting.seed)
    fleet = Fleet(users, plan, seed=setting.seed)
    scores: dict[str, list[float]] = {"round": [], "slices": [], "whole": [], "ensemble": []}
    for number in fleet.rounds():
        left = plan.rounds - number
        if number % plan.every and left >= LAST:
            continue
        if ensemble and left < TOGETHER:
            scores["ensemble"].append(round(ensemble_score(fleet.models, users), 3))
        fleet.send()
        scores["round"].append(number)
        scores["slices"].append(round(slice_score(fleet.models, users), 3))
        setting.say(f"round {number}/{plan.rounds}, {scores['slices'][-1]:.2f} % of slices")
        if left < LAST:
            alone = plan.share != MODEL
            whole = own_score(fleet.models, users) if alone else whole_score(Stack.of([fleet.state]), users)
            scores["whole"].append(round(whole, 3))
    return {**scores, "cpu_seconds": round(time.process_time() - start, 1), "examples": [len(own) for own in users.own]}


def reference(run: str, key: str = "slices") -> Fact:
    """As the authors' tables have it: mean of the five best rounds that were scored."""
    from fleet.experiments.fedgen.scores import best_five

    return Fact((run,), lambda results: best_five(results[run][key]), run)


def honest(run: str) -> Fact:
    """The mean of the last ten rounds, on the whole test set."""
    from fleet.experiments.fedgen.scores import last_ten

    return Fact((run,), lambda results: last_ten(results[run]["whole"]), run)
