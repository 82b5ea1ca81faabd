"""The page's style: light and dark by what the reader prefers, no font, script or file from elsewhere."""

from __future__ import annotations

__all__ = ["CSS"]

CSS = """
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #ffffff; --ink: #1c2128; --grey: #5c6670;
  --line: #e2e6ea; --accent: #0b66a8; --alarm: #b83c08; --mark: #fff3d6; }
@media (prefers-color-scheme: dark) { :root { --ground: #0f1216; --card: #171b21; --ink: #e8ebee; --grey: #a3adb8;
  --line: #303740; --accent: #6cbcf0; --alarm: #ff8a5c; --mark: #3a3115; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.55;
  font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 16px;
  overflow-wrap: anywhere; }
header, main, footer { max-width: 66rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 0 0 .2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p { margin: .3rem 0 .8rem; max-width: 62ch; }
.lede, figcaption, .note, footer { color: var(--grey); }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; list-style: none; margin: .8rem 0 1.4rem; padding: 0; }
a { color: var(--accent); text-underline-offset: .2em; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1.1rem 1.25rem;
  margin: 0 0 1.25rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.4rem, 1fr)); gap: .9rem;
  margin: .6rem 0 1.4rem; }
.tiles div { border-left: 3px solid var(--accent); padding-left: .8rem; }
.tiles dt { color: var(--grey); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles dd small { display: block; font-size: .8rem; font-weight: 400; color: var(--grey); }
.tiles .alarm { border-color: var(--alarm); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; overflow-wrap: normal; }
caption { text-align: left; color: var(--grey); padding-bottom: .4rem; }
th, td { padding: .32rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { color: var(--grey); font-weight: 600; vertical-align: bottom; }
thead th.number { white-space: normal; }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 6.5rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.text { overflow-wrap: anywhere; min-width: 6rem; }
tr.differs { background: var(--mark); }
.harm { color: var(--alarm); font-weight: 600; }
figure { margin: .4rem 0 0; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto .5rem; }
figcaption { font-size: .92rem; max-width: 70ch; }
details { margin-top: .8rem; }
summary { cursor: pointer; color: var(--accent); }
footer { padding-bottom: 2rem; font-size: .88rem; }
@media print { body { background: none; } section { break-inside: avoid; border: 0; padding: 0; }
  nav { display: none; } }
"""
