"""Any CSV, TSV or Parquet file, described by a small schema file in YAML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import yaml

from slipstream.data.formats import spec
from slipstream.data.formats.spec import Categorical, Dense, History, LogSpec, Negatives, Time
from slipstream.data.schema import list_kinds
from slipstream.errors import ConfigError, did_you_mean

_KEYS = "label dense categorical lists time weight sort negatives history separator names"


def table(schema: str | Path) -> LogSpec:
    """The log that a schema file describes; docs/prepare.md lists its keys."""
    path = Path(schema)
    if not path.is_file():
        raise ConfigError(f"The schema file {path} does not exist.")
    try:
        mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    return _Schema(str(path), mapping).spec()


class _Schema:
    """A schema file while it is read; every error names the file and the key."""

    def __init__(self, path: str, mapping: Any) -> None:
        self.path = path
        self.schema = self._mapping("the schema", mapping, tuple(_KEYS.split()))

    def spec(self) -> LogSpec:
        columns = [self._column(entry, lists=False) for entry in self._list("categorical")]
        columns += [self._column(entry, lists=True) for entry in self._list("lists")]
        if not columns:
            raise self._wrong("categorical", "names no column; a data set needs at least one")
        label, time, dense = self._name("label"), self._time(), self._dense()
        sort = self.schema.get("sort")
        if sort not in (None, False, "time"):
            raise self._wrong("sort", f"is {sort!r}; the one thing to sort by is `time`")
        if sort and time is None:
            raise self._wrong("sort", "is `time`, but no column is named as `time`")
        negatives = self._negatives(columns)
        if negatives is not None and label is not None:
            raise self._wrong("negatives", "are for logs of clicks only: leave out `label`")
        names = self.schema.get("names")
        if names is not None:
            names = tuple(self._text("names", name) for name in self._list("names"))
        separator = self.schema.get("separator")
        good = isinstance(separator, str) and len(separator) == 1 and separator.isascii()
        if separator is not None and (not good or separator in '"\n\r'):
            raise self._wrong("separator", f"is {separator!r}; give one ASCII character")
        every = [label or "click", *(c.name for c in columns), *(d.name for d in dense)]
        for name in every:
            if every.count(name) > 1:
                raise ConfigError(f"{self.path}: the name {name!r} is given twice.")
        return LogSpec(
            format="table",
            columns=tuple(columns),
            dense=dense,
            label=label,
            label_name=label or "click",
            time=time,
            weight=self._name("weight"),
            fields=names,
            separator=separator,
            quotes=True,
            sort=bool(sort),
            negatives=negatives,
            history=self._history(columns, negatives),
        )

    def _dense(self) -> tuple[Dense, ...]:
        dense = []
        for entry in self._list("dense"):
            values = self._named("dense", entry, ("name", "transform", "missing"))
            transform = values.get("transform", "log")
            if transform not in get_args(spec.Transform):
                choices = ", ".join(get_args(spec.Transform))
                raise self._wrong("dense", f"has transform {transform!r}; choose from {choices}")
            missing = values.get("missing", 0.0)
            if type(missing) not in (int, float) or not abs(missing) < 3e38:
                raise self._wrong("dense", f"has missing {missing!r}; give a finite number")
            dense.append(Dense(self._text("dense", values.get("name")), transform, float(missing)))
        return tuple(dense)

    def _column(self, entry: Any, lists: bool) -> Categorical:
        where = "lists" if lists else "categorical"
        keys = ("name", "field", "table", "values") + (("kind", "split") if lists else ())
        mapping = self._named(where, entry, keys)
        name = self._text(where, mapping.get("name"))
        values = mapping.get("values")
        if values is not None and values not in get_args(spec.Values):
            raise self._wrong(where, f"has values {values!r}; choose from hex, int, text, hour")
        if values == "hour" and lists:
            raise self._wrong(where, "cannot have values `hour`: a list has no time of its own")
        kind: Any = mapping.get("kind", "mean") if lists else "single"
        if lists and kind not in list_kinds():
            raise self._wrong(where, f"has kind {kind!r}; choose from {', '.join(list_kinds())}")
        split = mapping.get("split", " ") if lists else None
        if lists and (not isinstance(split, str) or not split):
            raise self._wrong(where, f"has split {split!r}; give the text between two values")
        field = self._text(where, mapping.get("field", name))
        if values == "hour":
            time = self._time()
            if time is None:
                raise self._wrong(where, f"{name!r} is an hour, but there is no time")
            field = time.field
        table_name = self._text(where, mapping.get("table", name))
        return Categorical(name, field, table_name, values, kind, split)

    def _time(self) -> Time | None:
        mapping = self.schema.get("time")
        if mapping is None or isinstance(mapping, str):
            return None if mapping is None else Time(mapping)
        self._mapping("time", mapping, ("field", "format"))
        field = self._text("time", mapping.get("field"))
        return Time(field, self._text("time", mapping.get("format", "unix")))

    def _negatives(self, columns: Sequence[Categorical]) -> Negatives | None:
        if (mapping := self.schema.get("negatives")) is None:
            return None
        self._mapping("negatives", mapping, ("per_positive", "from", "seed"))
        each = self._whole("negatives", "per_positive", mapping.get("per_positive"), 1)
        drawn = self._columns("negatives", "from", mapping.get("from"), columns)
        return Negatives(each, drawn, self._whole("negatives", "seed", mapping.get("seed", 0), 0))

    def _history(
        self, columns: Sequence[Categorical], negatives: Negatives | None
    ) -> History | None:
        if (mapping := self.schema.get("history")) is None:
            return None
        self._mapping("history", mapping, ("user", "length", "of"))
        length = self._whole("history", "length", mapping.get("length"), 1)
        users = self._columns("history", "user", mapping.get("user"), columns)
        if len(users) != 1:
            raise self._wrong("history", f"has {len(users)} columns as user; give one")
        of = mapping.get("of")
        if of is None and negatives is None:
            raise self._wrong("history", "needs `of`: the columns whose earlier values to keep")
        if of is None and negatives is not None:
            of = list(negatives.columns)
        names = self._columns("history", "of", of, columns)
        return History(users[0], length, {name: f"{name}_history" for name in names})

    def _columns(
        self, where: str, key: str, value: Any, columns: Sequence[Categorical]
    ) -> tuple[str, ...]:
        names = value if isinstance(value, list) else [value]
        if not names:
            raise self._wrong(where, f"has {key} without a column; name at least one")
        known = [column.name for column in columns if column.kind == "single"]
        for name in names:
            if name not in known:
                problem = f"has {key} {name!r}, which is no categorical column"
                raise self._wrong(where, problem, did_you_mean(str(name), known))
        return tuple(names)

    def _list(self, key: str) -> list[Any]:
        entries = [] if self.schema.get(key) is None else self.schema[key]
        if not isinstance(entries, list):
            raise self._wrong(key, f"is {entries!r}; give a list")
        return entries

    def _name(self, key: str) -> str | None:
        return None if self.schema.get(key) is None else self._text(key, self.schema[key])

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self._wrong(key, f"has {value!r} where a name belongs")
        return value

    def _whole(self, where: str, key: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
            raise self._wrong(where, f"has {key} {value!r}; give a whole number from {least} on")
        return value

    def _named(self, where: str, entry: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        return self._mapping(where, {"name": entry} if isinstance(entry, str) else entry, keys)

    def _mapping(self, where: str, mapping: Any, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(mapping, dict):
            raise ConfigError(f"{self.path}: {where} is {mapping!r}; give `key: value` lines.")
        for key in mapping:
            if key not in keys:
                raise self._wrong(where, f"has no key {key!r}", did_you_mean(str(key), keys))
        return mapping

    def _wrong(self, key: str, what: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.path}: {key} {what}.{hint}")
