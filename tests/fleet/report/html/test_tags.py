"""HTML that escapes what it is given."""

from fleet.report.html.tags import Markup, join, tag


def test_text_and_attributes_are_escaped_and_markup_is_kept() -> None:
    made = tag("p", "<script>&", tag("b", "ok"), title='"><img src=x>')
    assert made == '<p title="&quot;&gt;&lt;img src=x&gt;">&lt;script&gt;&amp;<b>ok</b></p>'
    assert isinstance(made, Markup)


def test_names_of_attributes_are_those_of_html() -> None:
    assert tag("td", class_="number", aria_label="x", id=None) == '<td class="number" aria-label="x"></td>'


def test_elements_without_content_have_no_end() -> None:
    assert tag("img", src="a") == '<img src="a">'


def test_joining_escapes_only_what_is_no_markup() -> None:
    assert join(["a<", Markup("<i>")]) == "a&lt;<i>"
