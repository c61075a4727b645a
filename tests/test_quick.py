from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from slipstream.quick import quick


@dataclass(frozen=True)
class Record:
    first: int
    plain: int = 7
    values: list[int] = field(default_factory=list)


def test_what_is_made_quickly_is_what_its_class_makes():
    record = quick(Record, first=1, values=[2])
    assert record == Record(1, values=[2])
    assert record.plain == 7
    assert replace(record, first=3) == Record(3, values=[2])
    with pytest.raises(FrozenInstanceError):
        record.first = 4


def test_a_field_whose_default_is_made_must_be_given():
    with pytest.raises(AttributeError):
        _ = quick(Record, first=1).values
