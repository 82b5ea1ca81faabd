"""`import edgestill`: its names exist, are documented, and are imported on first use."""

import inspect

import pytest

import edgestill as es


def test_every_name_is_there_and_documented() -> None:
    for name in es.__all__:
        thing = getattr(es, name)
        assert name == "__version__" or inspect.getdoc(thing), name
    assert set(es.__all__) <= set(dir(es))
    assert len(es.__all__) <= 16


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        es.simulat  # noqa: B018
