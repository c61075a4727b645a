"""The configuration: what is valid comes back as it was, what is not is told by its full key."""

import math
import pickle
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slipstream import ConfigError
from slipstream.config import (
    ROW_LR,
    Config,
    Dense,
    Embedding,
    Evaluate,
    Init,
    Model,
    Schedule,
    Table,
    files,
)
from slipstream.config.keys import keys_of, section_of, without_none
from slipstream.config.mapping import leaves, paths_of
from slipstream.config.reference import with_table
from slipstream.config.sections import _OPTIONS, _ROW_OPTIONS, InitName, StorageName
from slipstream.pipeline.schedule import rate
from slipstream.tables import spec
from slipstream.tables.optimizers import OPTIMIZERS, Adam, Sgd

PAGE = Path(__file__).parents[1] / "docs" / "config.md"
NAME = st.one_of(st.text(min_size=1, max_size=8), st.sampled_from(["1e5", "on", "a.b", "~", "08"]))
NUMBER = st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False))
SCALAR = st.one_of(st.none(), st.booleans(), NUMBER, NAME)
PLAIN = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=5,
)


def _values(hint, meaning):
    inner = without_none(hint)
    if get_origin(inner) is dict:
        kind = get_args(inner)[1]
        names = NAME.filter(lambda name: name != "name")
        of_kind = PLAIN if kind is Any else _sections(kind)
        return st.dictionaries(names, of_kind, max_size=3)
    if get_origin(inner) is tuple:
        numbers = st.floats(0.001, 0.999)
        return st.lists(numbers, unique=True, max_size=4).map(lambda given: tuple(sorted(given)))
    if get_origin(inner) is Literal:
        good = st.sampled_from(get_args(inner))
    elif section_of(inner):
        good = _sections(inner)
    elif inner is int:
        good = st.integers(int(meaning.least or 0), 2**63 - 1)
    elif inner is float:
        most = 1.0 if meaning.most else None
        least = meaning.least if meaning.above is None else 1e-9
        good = st.floats(least, 0.999 if meaning.below else most, allow_infinity=False)
    elif inner is bool:
        good = st.booleans()
    elif meaning.pattern:
        good = st.from_regex(meaning.pattern, fullmatch=True)
    else:
        good = NAME.filter(lambda text: "\0" not in text)
    return good if inner is hint else st.none() | good


def _fitting(values, optimizer):
    unfit = [one for one in _OPTIONS if one in values and one not in _ROW_OPTIONS[optimizer]]
    return {**values, **dict.fromkeys(unfit)}


@st.composite
def _sections(draw, kind):
    values = {one.name: draw(_values(hint, one.metadata["meaning"])) for one, hint in keys_of(kind)}
    if kind is Dense and values["optimizer"] == "sgd":
        values["eps"] = None
    if kind is Embedding:
        values = _fitting(values, values["optimizer"])
        values["tables"] = {
            name: replace(
                table,
                **_fitting({one: getattr(table, one) for one in _OPTIONS}, values["optimizer"])
                if table.optimizer is None
                else {},
            )
            for name, table in values["tables"].items()
        }
    if kind is Table and values["optimizer"] is not None:
        values = _fitting(values, values["optimizer"])
    return kind(**values)


@given(config=_sections(Config))
def test_any_configuration_is_read_as_it_was_written(config, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    config.write(path)
    assert Config.read(path) == config
    assert Config.from_mapping(config.to_mapping()) == config
    assert config.differences(Config.read(path)) == []
    assert pickle.loads(pickle.dumps(config)) == config


@given(config=_sections(Config), other=_sections(Config))
def test_differences_name_every_key_that_is_not_equal_and_only_those(config, other):
    names = config.differences(other)
    assert (names == []) == (config.to_mapping() == other.to_mapping())
    mine, theirs = (dict(leaves(one.to_mapping())) for one in (config, other))
    for path in {**mine, **theirs}:
        assert (mine.get(path, ...) != theirs.get(path, ...)) == (".".join(path) in names) or (
            [".".join(one) for one in {**mine, **theirs}].count(".".join(path)) > 1
        )


@given(config=_sections(Config))
def test_every_key_can_be_set_by_a_setting(config):
    mapping = config.to_mapping()
    tables, model = mapping["embedding"].pop("tables"), mapping.pop("model")
    settings = [f"{'.'.join(path)}={files.dump(value)}" for path, value in leaves(mapping)]
    settings += [f"embedding.tables={files.dump(tables)}", f"model={files.dump(model)}"]
    assert Config().with_settings(reversed(settings)) == config


# --- misspelt keys

LEAVES = [path for path in paths_of(Config) if ".NAME." not in path]
LETTERS = "abcdefghijklmnopqrstuvwxyz_"


@given(path=st.sampled_from(LEAVES), data=st.data())
def test_a_misspelt_key_is_an_error_that_names_the_right_one(path, data):
    section, _, name = path.rpartition(".")
    assume(section != "model")  # its keys are the model's
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from(LETTERS))
    wrong = data.draw(
        st.sampled_from(
            [name[:at] + letter + name[at:], name[:at] + letter + name[at + 1 :], name + letter]
            + ([name[:at] + name[at + 1 :]] if len(name) > 1 else [])
        )
    )
    assume(f"{section}.{wrong}".strip(".") not in LEAVES)
    with pytest.raises(ConfigError) as error:
        Config().with_settings([f"{section}.{wrong}".strip(".") + "=null"])
    given, _, hint = str(error.value).partition(". ")
    assert given == f"There is no key {section}{'.' if section else ''}{wrong}"
    assert path in hint or name in hint.partition(" are ")[2].rstrip(".").split(", ")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("dense.lrr=1", "There is no key dense.lrr. Did you mean dense.lr?"),
        (
            "clip=1",
            "There is no key clip. Did you mean dense.clip? The keys there are data, model,",
        ),
        ("dens={lr: 1}", "There is no key dens. Did you mean dense?"),
        ("embedding.beta=0.9", "Did you mean embedding.beta1 or embedding.beta2?"),
        (
            "embedding.tables.a.b.dmi=3",
            "no key embedding.tables.a.b.dmi. Did you mean embedding.tab",
        ),
        ("dense.lr=-1", "dense.lr is -1; it must be a number of at least 0, or null."),
        ("dense.lr=fast", "dense.lr is 'fast'; it must be a number of at least 0, or null."),
        ("dense.lr=true", "dense.lr is true; it must be a number"),
        ("dense.lr=.inf", "dense.lr is '.inf'; it must be a number"),
        ("dense.lr=1e999", "dense.lr is inf; it must be a number"),
        ("batch_size=0", "batch_size is 0; it must be a whole number of at least 1."),
        ("batch_size=1.5", "batch_size is 1.5; it must be a whole number of at least 1."),
        ("batch_size=null", "batch_size is null; it must be a whole number of at least 1."),
        ("seed=9223372036854775808", "seed is 9223372036854775808; it must be"),
        ("shuffle=yes", "shuffle is 'yes'; it must be true or false."),
        ("data=2024", "data is 2024; it must be a folder."),
        (
            "precision=fp31",
            "precision is 'fp31'; it must be fp32, tf32 or bf16. Did you mean fp32?",
        ),
        ("compile=true", "compile is true; it must be auto, on or off."),
        ("device=gpu", "device is 'gpu'; it must be cpu, cuda or cuda:NUMBER."),
        ("dense=3", "dense is 3; it must be a mapping of keys."),
        ("dense=null", "dense is null; it must be a mapping of keys."),
        ("embedding.tables=[a]", "embedding.tables is ['a']; it must be a mapping."),
        ("embedding.tables.ad=3", "embedding.tables.ad is 3; it must be a mapping of keys."),
        ("embedding.tables.ad.dim=0", "embedding.tables.ad.dim is 0; it must be a whole"),
        ("embedding.tables.ad.init.kind=x", "embedding.tables.ad.init.kind is 'x'; it must be"),
        (
            "embedding.tables.ad.beta2=0.5",
            "embedding.tables.ad.beta2 is 0.5, but rowwise_adagrad has",
        ),
        (
            "embedding.beta1=0.5",
            "embedding.beta1 is 0.5, but rowwise_adagrad has no beta1; leave it out.",
        ),
        (
            "dense={optimizer: sgd, eps: 1.0}",
            "dense.eps is 1.0, but sgd has no eps; leave it out.",
        ),
        (
            "evaluate.at=[0.5, 1.5]",
            "evaluate.at is [0.5, 1.5]; it must be a list of numbers above 0",
        ),
        ("evaluate.at=[0.6, 0.5]", "evaluate.at is [0.6, 0.5]; shares must rise."),
        ("evaluate.at=0.5", "evaluate.at is 0.5; it must be a list of numbers"),
        ("seed.x=1", "seed.x cannot be set: seed is 0, not a mapping."),
        ("model.top={1: 2}", "The key 1 in model.top is not text; put it in quotes."),
        ("model.name=[]", "model.name is []; it must be the name of a model."),
        ("seed", "'seed' is not a setting; write key=value."),
        ("=3", "'=3' is not a setting; write key=value."),
        ("model.top=[1, 2", "model.top, line 1: not YAML: expected ',' or ']'"),
        ("dense={lr: 1, lr: 2}", "dense, line 1: lr is given twice; the first time in line 1."),
    ],
)
def test_a_setting_that_cannot_be_used_is_told(setting, sentence):
    with pytest.raises(ConfigError) as error:
        Config().with_settings([setting])
    assert sentence in str(error.value)


def test_python_is_told_the_full_key_too():
    for make, name in (
        (lambda: Dense(lr=-1), "dense.lr"),
        (lambda: Init("unifrom"), "embedding.init.kind"),
        (lambda: Config(dense={"lr": 1}), "dense"),
        (lambda: Model(options={"top": {1, 2}}), "model.top"),
        (lambda: Model(options={"name": "dcn"}), "model.name"),
        (lambda: Embedding(tables={"ad": 3}), "embedding.tables.ad"),
        (lambda: Config.from_mapping([1]), "The configuration"),
        (lambda: Model(options={"top": math.nan}), "model.top"),
    ):
        with pytest.raises(ConfigError, match=rf"^{name} is "):
            make()
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="finite number"):
        Model(options={"top": loop})


# --- files


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: here is nothing; a configuration is a mapping"),
        ("# only words\n", "line 1: here is nothing"),
        ("- seed\n", "line 1: here is a list; a configuration is a mapping"),
        ("\n\nseed\n", "line 3: here is a str"),
        ("seed: 1\n\nseed: 2\n", "line 3: seed is given twice; the first time in line 1."),
        ("dense:\n  lr: 1\n  lr: 1\n", "line 3: lr is given twice; the first time in line 2."),
        ("seed: 1\ndense:\n  clip: 0\n", "line 3: dense.clip is 0; it must be a number above 0"),
        ("seed: 1\ndense:\n  lrr: 0\n", "line 3: There is no key dense.lrr."),
        ("seed: 1\nmodel:\n  top: [1, .nan, !!set {}]", "line 3: model.top[2] is set()"),
        ("seed: 1\n1: 2\n", "The key 1 is not text; put it in quotes."),
        ("seed: [1\n", "line 2: not YAML: expected ',' or ']'"),
        ("seed: !!python/object:os.system 1\n", "line 1: not YAML: could not determine"),
        ("? [a]\n: 1\n", "line 1: not YAML: found unhashable key"),
        ("seed: " + "9" * 5000, "not YAML"),
        ("seed: \x01", "not YAML"),
        ("seed: 1\n---\nseed: 2", "line 2: not YAML: but found another document"),
        ("model: &a {b: *a}", "finite number"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_line(text, sentence, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        Config.read(path)
    assert str(error.value).startswith(str(path))
    assert sentence in str(error.value)


def test_a_file_that_is_no_text_is_told(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        Config.read(tmp_path / "run.yaml")


def test_numbers_and_words_are_those_of_yaml_1_2(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("compile: on\ndense: {lr: 1e-3}\nlimit: 1_000\nseed: 010\nthreads: 2e0\n")
    config = Config.read(path)
    assert (config.compile, config.dense.lr, config.limit) == ("on", 1e-3, 1000)
    assert (config.seed, config.threads) == (10, 2)


def test_a_setting_of_a_section_replaces_it_and_one_of_a_key_does_not():
    config = Config(dense=Dense(lr=0.5, clip=1.0))
    assert config.with_settings(["dense.lr=0.1"]).dense == Dense(lr=0.1, clip=1.0)
    assert config.with_settings(["dense={lr: 0.1}"]).dense == Dense(lr=0.1)
    assert config.with_settings(["model.a.b=[1]"]).model.options == {"a": {"b": [1]}}
    assert config.with_settings(["init_from=run=1"]).init_from == "run=1"
    tables = config.with_settings(["embedding.tables.a.b.init.scale=0.1"]).embedding.tables
    assert tables == {"a.b": Table(init=Init(scale=0.1))}


def test_a_mapping_that_was_given_may_change_afterwards():
    top = [64]
    config = Config(model=Model(options={"top": top}))
    top.append(32)
    config.to_mapping()["model"]["top"].append(16)
    assert config.model.options == {"top": [64]}


# --- what it comes to


def test_the_reference_of_all_keys_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), f"run `python -m slipstream.config.reference {PAGE}`"


def test_names_are_those_of_the_embedding_tables():
    assert set(OPTIMIZERS) == set(_ROW_OPTIONS) == set(ROW_LR)
    for name, optimizer in OPTIMIZERS.items():
        assert {one.name for one in fields(optimizer)} == {"lr", *_ROW_OPTIONS[name]}
    assert set(get_args(StorageName)) == set(get_args(spec.Storage))
    for kind in get_args(InitName):
        spec.Init(kind)


def test_a_table_takes_what_holds_for_all_unless_its_optimizer_is_another():
    embedding = Embedding(
        optimizer="sgd",
        lr=0.5,
        weight_decay=0.1,
        storage="bf16",
        tables={
            "ad": Table(dim=4, lr=0.2, init=Init("zeros")),
            "user": Table(optimizer="adam", beta1=0.5, storage="fp32"),
        },
    )
    everywhere, tables = embedding.settings()
    assert everywhere == {"optimizer": Sgd(0.5, 0.1), "storage": "bf16"}
    assert tables == {
        "ad": {"dim": 4, "optimizer": Sgd(0.2, 0.1), "init": spec.Init("zeros")},
        "user": {"optimizer": Adam(beta1=0.5), "storage": "fp32"},
    }
    assert Embedding(optimizer="sgd").settings() == ({"optimizer": Sgd(0.1), "storage": "fp32"}, {})
    assert Dense(optimizer="adam").rate == 0.001


@given(schedule=_sections(Schedule), total=st.integers(1, 10**9), data=st.data())
def test_learning_rates_rise_then_fall_and_stay_within_bounds(schedule, total, data):
    warm = min(schedule.warmup_inputs, total)
    first, second = sorted(data.draw(st.integers(1, total)) for _ in range(2))
    low, high = rate(schedule, first, total), rate(schedule, second, total)
    assert 0 <= low <= 1
    assert low <= high + 1e-12 if second <= warm else True
    assert low >= high - 1e-12 if first >= warm else True
    if schedule.decay != "none" and max(schedule.decay_start, schedule.warmup_inputs) < total:
        assert rate(schedule, total, total) == pytest.approx(schedule.final, abs=1e-12)


def test_shares_of_the_run_rise_and_may_be_none():
    assert Evaluate(at=[]).at == ()
    assert Config.from_mapping({"evaluate": {"at": [0.25]}}).evaluate.at == (0.25,)


@pytest.mark.process
def test_it_needs_neither_yaml_nor_torch_until_a_file_is_read():
    import subprocess

    script = "import sys; sys.modules['yaml'] = sys.modules['torch'] = None\n"
    script += "from slipstream.config import Config; Config.from_mapping({'seed': 1}).to_mapping()"
    subprocess.run([sys.executable, "-c", script], check=True)


@given(config=_sections(Config))
def test_without_yaml_it_is_json_which_yaml_reads_as_the_same(config):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "yaml", None)
        text = files.dump(config.to_mapping())
        assert Config.from_mapping(files.parse(text, "text")[0]) == config
        with pytest.raises(ConfigError, match="PyYAML is needed"):
            files.parse("a: 1", "text")
    assert Config.from_mapping(files.parse(text, "text")[0]) == config
