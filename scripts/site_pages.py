"""Hooks of the documentation site (mkdocs.yml): pages from outside docs/, and diagrams of the architecture's walks.

The pages are written for a plain checkout, where README.md is next to docs/. On the site README.md is index.md, and the
files outside docs/ that a page links to are copied beside the pages, so every link leads somewhere in both.
"""

from __future__ import annotations

import ast
import html
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: File of the checkout: page of the site.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(\]\()([^)\s#]+)")
STEP = re.compile(r"^\| `([\w/]+)\.py:(\w+)` \|", re.MULTILINE)
LANE, ROW, BOX_WIDTH, BOX_HEIGHT, TOP = 170, 58, 158, 42, 34


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of the checkout's root, and the files outside docs/ that pages link to."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    for target in sorted(linked_outside()):
        files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri == "architecture.md":
        markdown = with_diagrams(markdown)
    if page.file.src_uri == "python.md":
        markdown = re.sub(r"^::: ([\w.]+)$", lambda m: with_public_names(m[1]), markdown, flags=re.MULTILINE)
    return LINK.sub(lambda m: m[1] + link_on_site(m[2], page.file.src_uri), markdown)


def link_on_site(target: str, page: str) -> str:
    """A link of the checkout, as the site has it: seen from `page`, a path in docs/ or one of PAGES."""
    if re.match(r"[a-z]+:", target):
        return target
    if page in PAGES.values():
        return PAGES.get(target, target.removeprefix("docs/"))
    depth = page.count("/")
    up = "../" * (depth + 1)
    if not target.startswith(up):
        return target
    outside = target.removeprefix(up)
    return "../" * depth + PAGES.get(outside, outside)


def linked_outside() -> set[str]:
    """Files of the checkout that pages link to and that are not pages."""
    found = {m[2] for name in PAGES for m in LINK.finditer((ROOT / name).read_text()) if not m[2].startswith("docs/")}
    for path in (ROOT / "docs").rglob("*.md"):
        up = "../" * len(path.relative_to(ROOT).parent.parts)
        found |= {m[2].removeprefix(up) for m in LINK.finditer(path.read_text()) if m[2].startswith(up)}
    return {target for target in found if target not in PAGES and (ROOT / target).is_file()}


def with_public_names(module: str) -> str:
    """A line of mkdocstrings for a module, and one for each name of its `__all__`, wherever that is defined."""
    path = ROOT.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    lists = [
        ast.literal_eval(node.value)
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    names = [name for found in lists for name in found if not name.startswith("_")]
    members = [f"::: {module}.{name}\n    options: {{ heading_level: 3 }}" for name in names]
    return "\n\n".join([f"::: {module}\n    options: {{ members: false }}", *members])


def with_diagrams(markdown: str) -> str:
    """The architecture page with a diagram above the table of each walk."""
    before, heading, rest = markdown.partition("## Four walks\n")
    section, following, after = rest.partition("\n## ")
    introduction, *walks = section.split("\n**")
    drawn = []
    for walk in walks:
        title, _, table = walk.partition("**\n")
        drawn.append(f"\n**{title}**\n\n{walk_svg(title, STEP.findall(table))}\n{table}")
    return "".join([before, heading, introduction, *drawn, following, after])


def walk_svg(title: str, steps: list[tuple[str, str]]) -> str:
    """One walk as swimlanes: a lane for each room in the order of first use, a row for each step, an arrow between."""
    rooms = ["/".join(module.split("/")[:-1][:2]) for module, _ in steps]
    lanes = list(dict.fromkeys(rooms))
    width, height = LANE * len(lanes), TOP + ROW * len(steps)
    label = html.escape(re.sub(r"[`*]", "", title))
    parts = [
        f'<div><svg class="walk" role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="100%" '
        'font-family="monospace" font-size="14" text-anchor="middle" fill="currentColor">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    for i, lane in enumerate(lanes):
        x = LANE * i
        shade = f'<rect x="{x}" width="{LANE}" height="{height}" fill-opacity="0.05"/>' if i % 2 == 0 else ""
        parts.append(f'{shade}<text x="{x + LANE / 2}" y="20" font-weight="bold">{lane}</text>')
    centres = [(LANE * lanes.index(room) + LANE / 2, TOP + ROW * i + BOX_HEIGHT / 2) for i, room in enumerate(rooms)]
    for (x, y), (module, function) in zip(centres, steps, strict=True):
        parts.append(
            f'<rect x="{x - BOX_WIDTH / 2}" y="{y - BOX_HEIGHT / 2}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
            f'fill="none" stroke="currentColor"/><text x="{x}" y="{y - 4}" fill-opacity="0.7">'
            f'{module.rpartition("/")[2]}.py</text><text x="{x}" y="{y + 14}">{function}</text>'
        )
    for (x, y), (to_x, to_y) in pairwise(centres):
        start, end, middle = y + BOX_HEIGHT / 2, to_y - BOX_HEIGHT / 2, (y + to_y) / 2
        parts.append(
            f'<path d="M{x} {start}V{middle}H{to_x}V{end}" fill="none" stroke="currentColor" marker-end="url(#tip)"/>'
        )
    return "".join([*parts, "</svg></div>\n"])
