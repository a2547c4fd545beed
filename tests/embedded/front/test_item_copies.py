"""Copies of items share nothing with them."""

import copy
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.embedded.front.item_copies import ItemCopies

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
)


def containers(value: Any) -> list[int]:
    inner = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    )
    own = [id(value)] if isinstance(value, dict | list) else []
    return own + [found for each in inner for found in containers(each)]


@given(value=JSON)
def test_a_copy_is_equal_and_shares_no_container(value: Any) -> None:
    copied = ItemCopies().deepcopy(value)
    assert copied == value
    assert not set(containers(copied)) & set(containers(value))


@pytest.mark.parametrize(
    "value", [defaultdict(dict, a={"b": [1]}), {"set": {"a", "b"}}, (["a"],)]
)
def test_what_json_does_not_have_is_copied_as_ever(value: Any) -> None:
    copied = ItemCopies().deepcopy(value)
    assert copied == copy.deepcopy(value)
    assert type(copied) is type(value)
    assert copied is not value


def test_the_rest_of_the_module_is_there() -> None:
    assert ItemCopies().copy is copy.copy
