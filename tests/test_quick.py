from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from slipstream.quick import quick


@dataclass(frozen=True)
class Made:
    first: int
    plain: int = 7
    made: list[int] = field(default_factory=list)


def test_what_is_made_quickly_is_what_its_class_makes():
    ours = quick(Made, first=1, made=[2])
    assert ours == Made(1, made=[2])
    assert ours.plain == 7
    assert replace(ours, first=3) == Made(3, made=[2])
    with pytest.raises(FrozenInstanceError):
        ours.first = 4


def test_a_field_whose_default_is_made_must_be_given():
    with pytest.raises(AttributeError):
        _ = quick(Made, first=1).made
