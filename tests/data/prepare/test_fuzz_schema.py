"""Arbitrary schema files: used, or told what is wrong with them; never a traceback."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from raw_logs import WHOLE

from slipstream import DataError, Dataset, verify
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.errors import ConfigError

HEADER = "a,b,click,user,time"
words = st.sampled_from(["a", "b", "click", "user", "time", "", "x y"])
values = st.sampled_from(["int", "hex", "text", "hour"])
keys = st.sampled_from(
    ["name", "field", "table", "values", "kind", "split", "transform", "missing", "format"]
)
more_keys = st.sampled_from(["per_positive", "from", "seed", "length", "of"])
any_text = st.recursive(
    words | st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.just(2**70),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words | keys | more_keys, inner, max_size=4)
    ),
    max_leaves=6,
)
column = st.fixed_dictionaries(
    {"name": words}, optional={"field": words, "table": words, "values": values}
)
columns = st.lists(words | column, min_size=1, max_size=3)
draws = st.fixed_dictionaries({"per_positive": st.just(2), "from": words})
history = st.fixed_dictionaries({"user": words, "length": st.just(2), "of": words})
schemas = st.fixed_dictionaries(
    {},
    optional={
        "label": st.sampled_from(["click", "a"]) | any_text,
        "categorical": columns | any_text,
        "lists": columns | any_text,
        "dense": st.lists(words, max_size=2) | any_text,
        "time": st.sampled_from(["time", "click"]) | any_text,
        "weight": any_text,
        "sort": st.just("time") | any_text,
        "negatives": draws | any_text,
        "history": history | any_text,
        "separator": st.sampled_from([",", ";", "\t"]) | any_text,
        "names": st.just(HEADER.split(",")) | any_text,
    },
)
logs = st.lists(st.sampled_from(["1,2,0,u,5", "3,,1,v,6", ",x,1,,7"]), max_size=6)


@given(schema=schemas | any_text, rows=logs)
def test_any_schema_is_used_or_told_what_is_wrong_with_it(schema, rows):
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "log.csv", Path(folder) / "out"
        file.write_text("\n".join([HEADER, *rows]) + "\n")
        (Path(folder) / "schema.yaml").write_text(json.dumps(schema))
        wrong = ""
        try:
            spec = log_spec("table", {"schema": Path(folder) / "schema.yaml"})
            prepare(spec, [file], out, Options(bad_rows="skip", **WHOLE))
        except (ConfigError, DataError) as error:
            wrong = str(error)
        if wrong:
            assert wrong.endswith((".", "?"))
            assert not out.exists()
            return
        read = Dataset.open(out).manifest.source["rows_read"]
        assert read == len(rows) + (spec.fields is not None)
        assert verify(out) == []
