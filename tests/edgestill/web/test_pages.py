"""How the page writes numbers and times."""

import re

from edgestill.web.pages import moment, percent, size, templates


def test_missing_values_are_blank() -> None:
    assert [percent(None), moment(None), moment(0.0), size(None)] == [""] * 4
    assert (percent(0.5), size(1234.0)) == ("50.0 %", "1,234")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", moment(1.7e9))


def test_every_value_is_escaped() -> None:
    shown = templates().from_string("{{ value }}").render(value="<b>&")
    assert shown == "&lt;b&gt;&amp;"


def test_no_template_has_a_script_or_a_style_of_its_own() -> None:
    environment = templates()
    for name in environment.list_templates(["j2"]):
        source, _, _ = environment.loader.get_source(environment, name)  # type: ignore[union-attr]
        assert not re.search(r"<script(?! src=)|<style|\son\w+=|style=|javascript:|\| *safe", source), name
