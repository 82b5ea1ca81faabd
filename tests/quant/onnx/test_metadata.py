"""Properties of ONNX files, as this package and ONNX Runtime read them."""

import pytest

from core.errors import ModelError
from quant.onnx.metadata import read_metadata, write_metadata
from quant.onnx.session import open_session
from tests.edge_agent.predict.boards import tiny_graph


def test_properties_are_replaced_and_read_by_the_runtime() -> None:
    once = write_metadata(tiny_graph(), {"a": "1", "b": "ü"}, producer="edgestill", version="1.2")
    twice = write_metadata(once, {"b": "2"}, producer="edgestill", version="1.3")
    assert read_metadata(once) == {"a": "1", "b": "ü"}
    assert read_metadata(twice) == {"b": "2"}
    facts = open_session(twice).get_modelmeta()
    assert (facts.custom_metadata_map, facts.producer_name) == ({"b": "2"}, "edgestill")


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ModelError, match="not an ONNX file"):
        read_metadata(b"garbage")
