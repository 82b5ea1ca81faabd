"""`edgestill recipe`: lists recipes, and shows the stages and the paper of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from edgestill.cli import completion
from edgestill.cli.output import out, print_json, print_table

if TYPE_CHECKING:
    from aggregator.recipes.catalogue import Recipe

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Recipes: how the aggregator fuses updates.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_recipes(as_json: Json = False) -> None:
    """List all recipes."""
    from aggregator.recipes.catalogue import find_recipe, recipe_names

    recipes = [find_recipe(name) for name in recipe_names()]
    if as_json:
        print_json([_facts(recipe) for recipe in recipes])
        return
    rows = [[r.name, "yes" if r.needs_source else "if any" if r.uses_source else "", r.title] for r in recipes]
    print_table("", ["recipe", "needs samples", "what it does"], rows)
    out.print("\nsamples: the aggregator's own, without labels. `edgestill recipe show NAME` has the composition.")


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="Name of a recipe (`edgestill recipe list`).", autocompletion=completion.recipes)
    ],
    fusion: Annotated[list[str] | None, typer.Option(help="Override a field, such as steps=200; repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Show a recipe's stages, requirements and paper.

    Example:  edgestill recipe show fedrad --fusion steps=500
    """
    from aggregator.recipes.catalogue import find_recipe
    from aggregator.recipes.overrides import parse_overrides

    recipe = find_recipe(name, parse_overrides(fusion or []))
    if as_json:
        print_json(_facts(recipe))
        return
    out.print(f"{recipe.name}: {recipe.title}\n{recipe.paper}\n", markup=False, soft_wrap=True)
    for stage, words in _stages(recipe).items():
        out.print(f"{stage:10s} {words}", markup=False, soft_wrap=True)
    needs = "yes" if recipe.needs_source else "no, but uses them" if recipe.uses_source else "no"
    out.print(f"\nneeds unlabeled samples: {needs}")
    if recipe.needs:
        out.print(f"its parts need: {', '.join(sorted(recipe.needs))}")
    if recipe.note:
        out.print(f"note: {recipe.note}", soft_wrap=True)
    if recipe.looks:
        out.print("uses labelled samples of the aggregator, if there are any")


def _facts(recipe: Recipe) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(recipe).items() if name != "distill"}
    facts |= {"options": dict(recipe.options), "local": dict(recipe.local), "needs_source": recipe.needs_source}
    facts["needs"] = sorted(recipe.needs)
    facts["generation"] = None if recipe.generation is None else asdict(recipe.generation)
    facts["distill"] = None if recipe.teach is None else asdict(recipe.distill)
    return facts


def _cap(ratio: float) -> str:
    return f"a device counts for at most {ratio:g} times its prototype's median number of examples" if ratio else "no"


def _stages(recipe: Recipe) -> dict[str, str]:
    average = recipe.average
    if recipe.bn != "mean":
        average += f", BatchNorm statistics of the {recipe.bn} update"
    if recipe.server_momentum:
        average += f", momentum {recipe.server_momentum:g} at the aggregator"
    stages = {
        "devices": ", ".join(f"{name} = {value:g}" for name, value in recipe.local.items()) or "as configured",
        "cap": _cap(recipe.max_examples_ratio),
        "screen": ", ".join(("shapes and finiteness", *recipe.screen)),
        "trust": recipe.trust or "all alike",
        "weigh": recipe.weigh,
        "average": average,
        "teach": recipe.teach or "no",
    }
    if recipe.sample is not None:
        stages["teach"] += f", over {recipe.samples} models drawn ({recipe.sample}) per prototype too"
    if recipe.teach is not None:
        stages["distill"] = ", ".join(f"{name} = {value}" for name, value in asdict(recipe.distill).items())
    if recipe.generation is not None:
        stages["generate"] = ", ".join(f"{name} = {value}" for name, value in asdict(recipe.generation).items())
    if recipe.label_logits is not None:
        stages["generate"] = f"mean logits of each label, over devices: {recipe.label_logits}"
    if recipe.options:
        stages["options"] = ", ".join(f"{name} = {value}" for name, value in recipe.options.items())
    return stages
