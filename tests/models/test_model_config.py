import re

import pytest
from lookups import EVERYTHING, LENGTHS

from slipstream import ConfigError
from slipstream.models import MODELS, build_model


def test_an_unknown_model_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match=r"no model 'dlmr'\. Did you mean dlrm\?"):
        build_model("dlmr", EVERYTHING)


@pytest.mark.parametrize("name", MODELS)
def test_an_unknown_option_is_an_error_that_names_the_nearest(name):
    with pytest.raises(ConfigError, match=r"no key model\.dimm\. Did you mean model\.dim"):
        build_model(name, EVERYTHING, lengths=LENGTHS, dimm=3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dlrm", {"dim": 0}, "dim is 0; it must be a whole number of at least 1."),
        ("dlrm", {"dim": 2.5}, "dim is 2.5; it must be a whole number of at least 1."),
        ("dlrm", {"dim": True}, "dim is true; it must be a whole number of at least 1."),
        ("dlrm", {"top": 5}, "top is 5; it must be a list of whole numbers of at least 1."),
        ("dlrm", {"top": [5, 0]}, "top is [5, 0]; it must be a list of whole numbers"),
        ("dlrm", {"normalize_dense": "no"}, "normalize_dense is 'no'; it must be true or false."),
        ("dcn", {"rank": -1}, "rank is -1; it must be a whole number of at least 0."),
        ("dcn", {"structure": "both"}, "structure is 'both'; it must be parallel or stacked."),
    ],
)
def test_an_option_with_a_wrong_value_is_an_error(name, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        build_model(name, EVERYTHING, **options)


def test_sizes_may_be_lists_as_they_come_from_a_file():
    assert MODELS["dlrm"].Config(top=[3, 4]).top == (3, 4)
