from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from search_oracle import save_checkpoints

from pdtools.errors import InputError, PdtoolsError
from pdtools.models import make_config
from pdtools.training import RECIPES, Recipe, TrainConfig, complete_recipe, read_recipe

IDS = {"vocab_size": 20, "pad_id": 0, "root_id": 1, "eos_id": 2}


def test_defaults() -> None:
    assert read_recipe() == Recipe()
    assert Recipe().model == "pushdown"


def test_a_file_and_settings(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "transformer"\n[config]\nlayers = 2\n[train]\nsteps = 1e3\nbetas = [0.9, 0.95]\n'
    )
    recipe = read_recipe(
        str(file),
        settings=["config.heads=2", "train.learning_rate=1", "config.positions=learned", "train.steps=7"],
    )
    assert recipe.model == "transformer"
    assert recipe.options == {"layers": 2, "heads": 2, "positions": "learned"}
    assert recipe.train == TrainConfig(steps=7, betas=(0.9, 0.95), learning_rate=1.0)
    assert isinstance(recipe.train.learning_rate, float)
    assert isinstance(recipe.train.steps, int)


@pytest.mark.parametrize("of_file", [None, "pushdown", "transformer"])
@pytest.mark.parametrize("of_init", ["pushdown", "transformer"])
@pytest.mark.parametrize("given", [None, "pushdown", "transformer"])
def test_the_kind_of_model_of_a_file_a_checkpoint_and_an_option(
    given: str | None, of_file: str | None, of_init: str, tmp_path: Path
) -> None:
    """The option's, else the file's, else the checkpoint's; sizes are the checkpoint's, unless set."""
    folders, _ = save_checkpoints(tmp_path, d_model=12)
    file = tmp_path / "mine.toml"
    file.write_text(
        (f'model = "{of_file}"\n' if of_file else "") + "[config]\nd_model = 20\nattention_dropout = 0.5\n"
    )
    init = folders["pushdown" if of_init == "pushdown" else "base"]
    recipe = read_recipe(str(file), model=given, init=init)
    assert recipe.model == (given or of_file or of_init)
    assert (recipe.options["d_model"], recipe.options["attention_dropout"]) == (12, 0.5)
    set_ = read_recipe(str(file), model=given, init=init, settings=["config.d_model=8"])
    assert (set_.model, set_.options["d_model"]) == (recipe.model, 8)


def test_another_model_leaves_out_what_it_does_not_have() -> None:
    own = read_recipe("gpt2-small-last6")
    base = read_recipe("gpt2-small-last6", model="transformer")
    assert own.options.keys() - base.options.keys() == {"pushdown_layers"}
    assert base.train == own.train


@pytest.mark.parametrize("name", RECIPES.names)
@pytest.mark.parametrize("model", [None, "transformer"])
def test_every_bundled_recipe_is_valid(name: str, model: str | None) -> None:
    recipe = read_recipe(name, model=model)
    labels: dict[str, object] = {"n_labels": 3} if recipe.model in ("tg", "plm", "rnng") else {}
    labels |= {"runs": ["(S"]} if recipe.model == "sclm" else {}
    make_config(recipe.model, {**recipe.options, **IDS, **labels})


@pytest.mark.parametrize("name", ["tiny", "small"])
@pytest.mark.parametrize("model", ["tg", "plm"])
def test_small_recipes_are_for_models_of_actions_too(name: str, model: str) -> None:
    recipe = read_recipe(name, model=model)
    assert make_config(model, {**recipe.options, **IDS, "n_labels": 3}).positions == "relative"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("modle = 'pushdown'", "unknown key modle"),
        ("[train]\nstep = 3", r"unknown key train\.step \(valid: steps, learning_rate"),
        ("[config]\nlayer = 3", r"unknown key config\.layer \(valid: .*layers"),
        ("[train]\nsteps = 'many'", r"train\.steps must be a whole number, not 'many'"),
        ("[train]\nsteps = 1.5", r"train\.steps must be a whole number"),
        ("[train]\nschedule = 'steps'", r"train\.schedule must be one of cosine, linear, constant"),
        ('[train]\nbetas = [0.9, "x"]', r"train\.betas must be a list of 2, each a number, not \[0"),
        ("train = 3", "train must be a table"),
        ("[train", "not TOML"),
        ("model = 'bird'", "unknown model 'bird'"),
        ("model = 3", "model must be a string"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(PdtoolsError, match=reason):
        read_recipe(str(file))


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("steps=3", "write config.KEY=VALUE or train.KEY=VALUE"),
        ("train.steps", "write config.KEY=VALUE"),
        ("train.steps=0", r"train\.steps must be at least 1, not 0"),
        ("train.learning_rate=-1", "above 0"),
        ("train.learning_rate=nan", "above 0"),
        ("train.embedding_rate=0", "embedding_rate must be above 0"),
        ("train.betas=[0.9, 1.0]", "below 1"),
        ("train.min_learning_rate_ratio=2", "from 0 to 1"),
        ("train.batch_tokens=0", "both 0"),
        ("train.seed=-1", "0 or more"),
        ("train.precision=fp8", "one of auto, float32, bf16"),
    ],
)
def test_bad_settings(setting: str, reason: str) -> None:
    with pytest.raises(PdtoolsError, match=reason):
        read_recipe(settings=[setting])


def test_a_missing_file_names_the_recipes() -> None:
    with pytest.raises(InputError, match=r"tny: no such file.*recipes: bllip, cfl, .*dyck"):
        read_recipe("tny")


@dataclasses.dataclass
class FakeTokenizer:
    vocab_size: int = 20
    pad_id: int = 0
    root_id: int = 1
    eos_id: int = 2


def test_the_tokenizer_decides_the_vocabulary() -> None:
    complete, config = complete_recipe(Recipe(options={"layers": 2}), FakeTokenizer())  # type: ignore[arg-type]
    assert (config.vocab_size, config.layers) == (20, 2)
    assert complete.options == dataclasses.asdict(config)
    with pytest.raises(PdtoolsError, match=r"config\.vocab_size is 21, but 20"):
        complete_recipe(Recipe(options={"vocab_size": 21}), FakeTokenizer())  # type: ignore[arg-type]
