"""The configuration: valid values stay as they were, errors name the full key."""

import math
import pickle
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import inspect

from slipstream import ConfigError
from slipstream.config import Config, files
from slipstream.config.config import leaves
from slipstream.config.section import check_choices, keys_of, paths_of
from slipstream.config.sections import (
    DenseSettings,
    EmbeddingSettings,
    EvaluateSettings,
    ModelSettings,
    ScheduleSettings,
    TableSettings,
)
from slipstream.pipeline.schedule import rate

PAGE = Path(__file__).parents[1] / "docs" / "config.md"
TOOL = Path(__file__).parents[1] / "tools" / "config_reference.py"
NAME = st.one_of(st.text(min_size=1, max_size=8), st.sampled_from(["1e5", "on", "a.b", "~", "08"]))
NUMBER = st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False))
SCALAR = st.one_of(st.none(), st.booleans(), NUMBER, NAME)
PLAIN = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=5,
)
# Text with a pattern, by key.
WORDS = {
    "device": ["cpu", "cuda", "cuda:3"],
    "fast_memory": ["auto", "5%", "256MiB", "1.5 g", "70000"],
    "hot_memory": ["5%", "256MiB", "1.5 g", "70000"],
    "start": [0, 17, "0%", "12.5 %"],
    "stop": [18, "25%", "100%"],
}


def _values(name, key):
    """Values that a key may have."""
    info = key.info
    if isinstance(info, inspect.DictType):
        of = _sections(key.section) if key.section else PLAIN
        values = st.dictionaries(NAME.filter(lambda text: text != "name"), of, max_size=3)
    elif isinstance(info, inspect.VarTupleType):
        if isinstance(info.item_type, inspect.StrType):
            values = st.sampled_from([(), ("tensorboard",)])
        else:
            numbers = st.lists(st.floats(0.001, 0.999), unique=True, max_size=4)
            values = numbers.map(lambda shares: tuple(sorted(shares)))
    elif key.section is not None:
        values = _sections(key.section)
    elif name in WORDS:
        values = st.sampled_from(WORDS[name])
    elif key.choices:
        values = st.sampled_from(key.choices)
    elif isinstance(info, inspect.BoolType):
        values = st.booleans()
    elif isinstance(info, inspect.IntType):
        values = st.integers(info.ge, 2**63 - 1)
    elif isinstance(info, inspect.FloatType):
        least, most = 1e-9 if info.ge is None else info.ge, 0.999 if info.lt else info.le
        values = st.floats(least, most, allow_infinity=False)
    else:
        values = NAME.filter(lambda text: "\0" not in text)
    return values | st.none() if key.nullable else values


@st.composite
def _sections(draw, kind):
    return kind(**{name: draw(_values(name, key)) for name, key in keys_of(kind).items()})


@given(config=_sections(Config))
def test_any_configuration_is_read_as_it_was_written(config, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    config.write(path)
    assert Config.read(path) == config
    assert Config.from_mapping(config.to_mapping()) == config
    assert config.differences(Config.read(path)) == []
    assert pickle.loads(pickle.dumps(config)) == config
    check_choices(config)


@given(config=_sections(Config), other=_sections(Config))
def test_differences_name_every_key_that_is_not_equal_and_only_those(config, other):
    names = config.differences(other)
    assert (names == []) == (config.to_mapping() == other.to_mapping())
    values, other_values = (leaves(either.to_mapping()) for either in (config, other))
    paths = {**values, **other_values}
    changed = [path for path in paths if values.get(path, ...) != other_values.get(path, ...)]
    different = [".".join(path) for path in changed]
    assert names == different


@given(config=_sections(Config))
def test_every_key_can_be_set_by_a_setting(config):
    mapping = config.to_mapping()
    sections = {"model": mapping.pop("model")}
    for section, name in (("embedding", "tables"), ("embedding", "options"), ("skip", "options")):
        sections[f"{section}.{name}"] = mapping[section].pop(name)
    sections |= {".".join(path): value for path, value in leaves(mapping).items()}
    settings = [f"{path}={files.dump(value)}" for path, value in sections.items()]
    assert Config().with_settings(reversed(settings)) == config


def test_there_are_at_most_40_keys_besides_those_of_plug_ins():
    own = ("options", "tables")
    paths = [path for path, key in paths_of(Config) if key.section is None]
    paths = [path for path in paths if not {*own} & {*path.split(".")}]
    assert len([*paths, "embedding.tables"]) <= 40


# --- misspelt keys

LEAVES = [path for path, _ in paths_of(Config) if ".NAME." not in path]
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
    sentence, _, hint = str(error.value).partition(". ")
    assert sentence == f"There is no key {section}{'.' if section else ''}{wrong}"
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
        (
            "learning_rate=1",
            "There is no key learning_rate. Did you mean embedding.lr or embedding.tables.NAME.lr "
            "or dense.lr?",
        ),
        ("limit=9", "There is no key limit. Did you mean stop?"),
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
            "precision is 'fp31'; it must be bf16, fp32 or tf32. Did you mean fp32?",
        ),
        ("compile=true", "compile is true; it must be auto, off or on."),
        ("device=gpu", "device is 'gpu'; it must be cpu, cuda or cuda:NUMBER."),
        ("dense=3", "dense is 3; it must be a mapping of keys."),
        ("dense=null", "dense is null; it must be a mapping of keys."),
        ("embedding.tables=[a]", "embedding.tables is ['a']; it must be a mapping."),
        ("embedding.tables.ad=3", "embedding.tables.ad is 3; it must be a mapping of keys."),
        ("embedding.tables.ad.dim=0", "embedding.tables.ad.dim is 0; it must be a whole"),
        ("embedding.tables.ad.options=3", "embedding.tables.ad.options is 3; it must be a map"),
        ("start=-1", "start is -1; it must be a number of examples or a share such as 25%."),
        ("stop=125%", "stop is '125%'; it must be a number of examples or a share such as 25%"),
        ("log.trackers=wandb", "log.trackers is 'wandb'; it must be a list of tensorboard, mlflow"),
        (
            "evaluate.at=[0.5, 1.5]",
            "evaluate.at is [0.5, 1.5]; it must be a list of numbers above 0",
        ),
        ("evaluate.at=[0.6, 0.5]", "evaluate.at is [0.6, 0.5]; shares must rise."),
        ("evaluate.at=0.5", "evaluate.at is 0.5; it must be a list of numbers"),
        ("seed.x=1", "seed.x cannot be set: seed is 0, not a mapping."),
        ("model.top={1: 2}", "The key 1 in model.top is not text; put it in quotes."),
        ("model.name=[]", "model.name is []; it must be dlrm, tbsm,"),
        ("seed", "'seed' is not a setting; write key=value."),
        ("=3", "'=3' is not a setting; write key=value."),
        ("model.top=[1, 2", "model.top, line 1: not YAML: expected ',' or ']'"),
        ("dense={lr: 1, lr: 2}", "dense, line 1: lr is given twice; the first time in line 1."),
    ],
)
def test_a_setting_that_cannot_be_used_is_an_error_with_its_full_key(setting, sentence):
    with pytest.raises(ConfigError) as error:
        Config().with_settings([setting])
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"options": {"esp": 1}},
            "options.esp is 1, but rowwise_adagrad has no esp. Did you mean",
        ),
        ({"options": {"eps": "low"}}, "options.eps is 'low'; it must be a number of at least 0."),
        (
            {"tables": {"ad": {"optimizer": "adam", "options": {"beta1": 1}}}},
            "tables.ad.options.beta1 is 1; it must be a number from 0 to below 1.",
        ),
    ],
)
def test_a_wrong_option_of_a_row_optimizer_is_an_error_with_its_full_key(settings, sentence):
    with pytest.raises(ConfigError) as error:
        EmbeddingSettings(**settings).settings()
    assert str(error.value).startswith(f"embedding.{sentence}")


def test_errors_name_the_full_key_in_python_too():
    for make, name in (
        (lambda: DenseSettings(lr=-1), "lr"),
        (lambda: Config(dense={"lr": -1}), "dense.lr"),
        (lambda: Config(dense=3), "dense"),
        (lambda: Config(model={"top": {1, 2}}), r"model\.top"),
        (lambda: ModelSettings(options={"name": "dcn"}), "name"),
        (lambda: EmbeddingSettings(tables={"ad": 3}), r"tables\.ad"),
        (lambda: Config.from_mapping([1]), "The configuration"),
        (lambda: ModelSettings(options={"top": math.nan}), "top"),
    ):
        with pytest.raises(ConfigError, match=rf"^{name} is "):
            make()
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="finite number"):
        ModelSettings(options={"top": loop})


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
def test_a_file_that_cannot_be_used_is_an_error_with_its_line(text, sentence, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        Config.read(path)
    assert str(error.value).startswith(str(path))
    assert sentence in str(error.value)


def test_a_file_that_is_not_text_is_an_error(tmp_path):
    (tmp_path / "run.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        Config.read(tmp_path / "run.yaml")


def test_numbers_and_words_are_those_of_yaml_1_2(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("compile: on\ndense: {lr: 1e-3}\nstop: 1_000\nseed: 010\nthreads: 2e0\n")
    config = Config.read(path)
    assert (config.compile, config.dense.lr, config.stop) == ("on", 1e-3, 1000)
    assert (config.seed, config.threads) == (10, 2)


def test_a_setting_of_a_section_replaces_it_and_one_of_a_key_does_not():
    config = Config(dense=DenseSettings(lr=0.5, clip=1.0))
    assert config.with_settings(["dense.lr=0.1"]).dense == DenseSettings(lr=0.1, clip=1.0)
    assert config.with_settings(["dense={lr: 0.1}"]).dense == DenseSettings(lr=0.1)
    assert config.with_settings(["model.a.b=[1]"]).model.options == {"a": {"b": [1]}}
    assert config.with_settings(["init_from=run=1"]).init_from == "run=1"
    tables = config.with_settings(["embedding.tables.a.b.options.eps=0.1"]).embedding.tables
    assert tables == {"a.b": TableSettings(options={"eps": 0.1})}
    assert config.with_settings(["embedding.tables.a.b.dim=3"]).embedding.tables["a.b"].dim == 3


def test_in_python_a_mapping_becomes_a_section():
    config = Config(model={"name": "deepfm", "deep": [8]}, embedding={"tables": {"ad": {"dim": 2}}})
    assert config.model == ModelSettings(name="deepfm", options={"deep": [8]})
    assert config.embedding.tables == {"ad": TableSettings(dim=2)}
    assert config.replace(dense={"lr": 1}).dense == DenseSettings(lr=1.0)


def test_a_mapping_that_was_given_may_change_afterwards():
    top = [64]
    config = Config(model=ModelSettings(options={"top": top}))
    top.append(32)
    config.to_mapping()["model"]["top"].append(16)
    assert config.model.options == {"top": [64]}


# --- defaults that depend on other keys


def test_the_reference_of_all_keys_is_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    with_reference = runpy.run_path(str(TOOL))["with_reference"]
    assert page == with_reference(page), f"run `python {TOOL} {PAGE}`"


@given(schedule=_sections(ScheduleSettings), total=st.integers(1, 10**9), data=st.data())
def test_learning_rates_rise_while_warm_then_fall_to_their_end(schedule, total, data):
    warm = schedule.warmup_inputs
    first, second = sorted(data.draw(st.integers(1, total)) for _ in range(2))
    low, high = rate(schedule, first, total), rate(schedule, second, total)
    assert 0 <= low <= 1
    assert low <= high + 1e-12 if second <= warm else True
    assert low >= high - 1e-12 if first >= warm else True
    if schedule.decay != "none" and warm < total:
        assert rate(schedule, total, total) == pytest.approx(0, abs=1e-12)


def test_shares_of_the_run_rise_and_may_be_none():
    assert EvaluateSettings(at=[]).at == ()
    assert Config.from_mapping({"evaluate": {"at": [0.25]}}).evaluate.at == (0.25,)


@pytest.mark.process
def test_it_needs_no_torch():
    import subprocess
    import sys

    script = "import sys; sys.modules['torch'] = None\n"
    script += "from slipstream.config import Config; Config.from_mapping({'seed': 1}).to_mapping()"
    subprocess.run([sys.executable, "-c", script], check=True)
