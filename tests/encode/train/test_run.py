"""Train on a tiny log end to end, with both methods."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nextquery.encode import Encoder, Sessions, TrainedEncoder
from nextquery.encode.train import TrainOptions, export, loop, model
from nextquery.encode.train import export as finish_module
from nextquery.encode.train.model import positions, pretrained, published, tokenise
from nextquery.encode.train.objectives import TrainingResult, learn
from nextquery.errors import InvalidInput
from tests.encode.train.world import SMALL, Whole, World, curve, trained


def test_masked_lm_learns_and_the_floor_falls(bert: TrainingResult) -> None:
    assert [stage["name"] for stage in bert.report["stages"]] == ["masked-lm"]
    losses, guesses, floors = (curve(bert, 0, name) for name in ("loss", "perplexity", "floor"))
    assert losses[-1] < losses[1] / 1.2
    assert guesses[-1] < guesses[0] / 5
    assert floors[-1] < floors[0] - 0.1
    assert bert.model.dim == SMALL.hidden


def test_sessions_teach_what_words_do_not(contrastive: Whole, odd: World) -> None:
    losses, floors = curve(contrastive.learnt, 1, "loss"), curve(contrastive.learnt, 1, "floor")
    assert losses[-1] < losses[1] / 2
    assert min(floors) < floors[0] - 0.4
    assert contrastive.made.report["floors"]["model"] == pytest.approx(min(floors), abs=1e-3)
    rows = contrastive.made.encoder.encode(odd.texts).reshape(40, 6, 16)
    together = (rows[:, 0] * rows[:, 1]).sum(axis=1).mean()
    apart = (rows[:-1, 0] * rows[1:, 0]).sum(axis=1).mean()
    assert together > apart + 0.3


def test_contrastive_continues_from_a_finished_masked_lm(
    bert: TrainingResult, topics: World, work: Path
) -> None:
    options = replace(SMALL, method="contrastive", steps=1)
    first, second = learn(*topics, options, timed=True, work=work).report["stages"]
    assert first == bert.report["stages"][0]  # its times too: nothing was trained again
    assert second["steps"] == 1


def test_onnx_agrees_with_torch_text_by_text(contrastive: Whole, odd: World) -> None:
    learnt, made = contrastive
    served = made.encoder.encode(odd.texts)
    learnt.model.eval()
    for row, ids in zip(served, tokenise(learnt.tokenizer, odd.texts, 64), strict=True):
        batch = torch.from_numpy(ids[None]).long()
        with torch.no_grad():
            alone = learnt.model(batch, torch.ones_like(batch))[0].numpy()
        assert float(row @ alone) > 1 - 1e-3
    assert made.report["onnx_worst_cosine"] > 1 - 1e-3


def test_saved_and_loaded_vectors_are_equal(contrastive: Whole, odd: World, tmp_path: Path) -> None:
    encoder, static, _ = vars(contrastive.made).values()
    for name, saved in (("onnx", encoder), ("static", static)):
        saved.save(tmp_path / name)
        again = Encoder.load(tmp_path / name)
        assert type(again) is type(saved)
        assert again.meta() == saved.meta()
        assert again.encode(odd.texts).tobytes() == saved.encode(odd.texts).tobytes()


def test_a_text_has_the_same_bits_in_any_batch(contrastive: Whole, odd: World) -> None:
    encode, rng = contrastive.made.encoder.encode, np.random.default_rng(0)
    words = " ".join(odd.texts).split()
    texts = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(200)]
    whole, order = encode(texts), rng.permutation(200)
    assert whole.tobytes() == b"".join(encode([text]).tobytes() for text in texts)
    assert whole[order].tobytes() == encode([texts[i] for i in order]).tobytes()
    assert encode(texts * 60)[-200:].tobytes() == whole.tobytes()  # above the size of any block
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), list(map(bool, texts)), atol=1e-6)
    assert not encode(["", " \t", "🫠"]).any()
    assert encode([]).shape == (0, 16)


def test_the_number_of_cores_changes_no_bit(
    contrastive: Whole, odd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three or more onnxruntime threads would, so it has one, and cores share batches."""
    session = contrastive.made.encoder._runner().__self__
    assert session.get_session_options().intra_op_num_threads == 1
    texts = [f"{' '.join(odd.texts[: n % 7])} {text}" for n, text in enumerate(odd.texts * 4)]
    results = set()
    for cores in ("1", "2", "5"):
        monkeypatch.setenv("OMP_NUM_THREADS", cores)
        results.add(contrastive.made.encoder.encode(texts).tobytes())
    assert len(results) == 1


def test_the_static_table_imitates_it(contrastive: Whole, odd: World) -> None:
    encoder, static, report = vars(contrastive.made).values()
    agree = (static.encode(odd.texts) * encoder.encode(odd.texts)).sum(axis=1)
    assert agree.mean() > 0.7  # words have several pieces here, and a mean loses their order
    assert report["floors"]["static"] < curve(contrastive.learnt, 0, "floor")[0] - 0.2


def test_the_report_describes_the_run(bert: TrainingResult, topics: World) -> None:
    report = bert.report
    assert report["data"] | {"sha256": ""} == {
        "sha256": "",
        "texts": len(topics.texts),
        "training_sessions": 270,
        "validation_sessions": 30,
        "split": "newest",
    }
    assert report["versions"]["torch"] == torch.__version__
    assert TrainOptions(**report["options"]) == SMALL
    assert report["seconds"] > 0


def steps_taken(
    monkeypatch: pytest.MonkeyPatch, *, lose_power_at: int, stage: str = "masked-lm"
) -> list[int]:
    """Record the numbers of all steps; the power fails once, before a step of a stage."""
    step, taken, failed = loop._step, list[int](), False

    def watched(objective: Any, optimizer: Any, number: int, *rest: Any) -> Any:
        nonlocal failed
        if (objective.name, number) == (stage, lose_power_at) and not failed:
            failed = True
            raise KeyboardInterrupt
        taken.append(number)
        return step(objective, optimizer, number, *rest)

    monkeypatch.setattr(loop, "_step", watched)
    return taken


def test_a_mistyped_option_leaves_the_checkpoint_of_the_right_one(
    topics: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(SMALL, epochs=1, checks=1, checkpoint_seconds=0.0)
    taken, notes = steps_taken(monkeypatch, lose_power_at=9), list[str]()
    with pytest.raises(KeyboardInterrupt):
        learn(*topics, options, timed=True, work=tmp_path, note=notes.append)
    assert not notes
    mistyped = replace(options, mlm_rate=3e-2)
    learn(*topics, mistyped, timed=True, work=tmp_path, note=notes.append)
    assert "at step 9, was made from other data, options" in notes.pop()
    same = replace(options, device="auto" if not torch.cuda.is_available() else "cpu")
    learn(*topics, same, timed=True, work=tmp_path, note=notes.append)  # the same device type
    assert not notes
    assert taken == [*range(9), *range(16), *range(9, 16)]


@pytest.mark.parametrize(("stage", "at"), [("masked-lm", 20), ("contrastive", 7)])
def test_a_kill_between_two_checks_costs_the_steps_since_the_last_checkpoint(
    topics: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, at: int
) -> None:
    options = replace(SMALL, epochs=2, checks=1, checkpoint_seconds=0.0)  # one check, at the end
    if stage == "contrastive":
        options = replace(options, method="contrastive", epochs=1, steps=12)
    alone = learn(*topics, options, timed=True, work=tmp_path / "alone")
    taken = steps_taken(monkeypatch, lose_power_at=at, stage=stage)
    with pytest.raises(KeyboardInterrupt):
        learn(*topics, options, timed=True, work=tmp_path / "killed")
    again = learn(*topics, options, timed=True, work=tmp_path / "killed")
    stages = alone.report["stages"]
    assert stages[-1]["name"] == stage
    assert taken == [step for each in stages for step in range(each["steps"])]  # none twice
    curves = [
        [{**check, "seconds": 0} for each in run.report["stages"] for check in each["curve"]]
        for run in (alone, again)
    ]
    assert curves[0] == curves[1]
    everything = np.arange(len(topics.texts))
    assert alone.reader.of(everything).tobytes() == again.reader.of(everything).tobytes()


def test_another_split_of_the_same_data_starts_anew(topics: World, tmp_path: Path) -> None:
    """Otherwise training sessions would be used for validation, reported as the newest."""
    options = replace(SMALL, epochs=1, checks=1)
    learn(*topics, options, timed=False, work=tmp_path / "one")
    second = learn(*topics, options, timed=True, work=tmp_path / "one")
    alone = learn(*topics, options, timed=True, work=tmp_path / "alone")
    everything = np.arange(len(topics.texts))
    assert second.reader.of(everything).tobytes() == alone.reader.of(everything).tobytes()
    assert second.report["data"]["split"] == "newest"


def sentence_model(folder: Path, texts: list[str], *, seed: int = 0) -> str:
    """Write a tiny model that sentence-transformers can load, and return its path."""
    from transformers import PreTrainedTokenizerFast

    published(replace(SMALL, seed=seed), 400).bert.save_pretrained(folder)
    (folder / "raw.json").write_bytes(model.learn(texts, 400))
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "raw.json"), pad_token="[PAD]", unk_token="[UNK]"
    )
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_another_start_under_the_same_name_starts_anew(odd: World, tmp_path: Path) -> None:
    reports = []
    for seed in (0, 0, 1):
        start = sentence_model(tmp_path / "model", odd.texts, seed=seed)
        options = replace(
            SMALL, method="contrastive", start=start, residual=True, steps=2, static=False
        )
        learnt = learn(*odd, options, timed=False, work=tmp_path / "work")
        assert learnt.model.residual.weight.abs().max() > 0
        reports.append(learnt.report)
    first, same, other = reports
    assert same == first  # its times too: it was finished
    assert first["data"]["split"] == "random"
    assert [stage["name"] for stage in first["stages"]] == ["contrastive"]
    assert other["start_sha256"] != first["start_sha256"]
    assert other["stages"] != first["stages"]
    long = replace(options, max_tokens=1000)
    with pytest.raises(InvalidInput, match=r"reads at most \d+ tokens; received max_tokens 1000"):
        learn(*odd, long, timed=False, work=tmp_path / "work")


def test_a_note_names_the_unused_parts_of_a_sentence_model(odd: World, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    start, notes = sentence_model(tmp_path / "plain", odd.texts), list[str]()
    pretrained(start, 64, notes.append)
    assert not notes  # it uses a mean too
    transformer: Any = modules.Transformer(start)
    rest = [modules.Pooling(32, pooling_mode="cls"), modules.Dense(32, 8), modules.Normalize()]
    SentenceTransformer(modules=[transformer, *rest]).save(str(tmp_path / "more"))
    pretrained(str(tmp_path / "more"), 64, notes.append)
    assert notes[0].endswith("the mean of its tokens; left out: pooling (cls), Dense.")


def test_training_cannot_start_from_an_exported_encoder(
    contrastive: Whole, odd: World, tmp_path: Path
) -> None:
    contrastive.made.encoder.save(tmp_path / "encoder")
    options = replace(SMALL, method="contrastive", start=str(tmp_path / "encoder"))
    with pytest.raises(
        InvalidInput, match=r"cannot start from .* cannot be trained further\. Pass"
    ):
        learn(*odd, options, timed=True, work=tmp_path)


def test_a_note_names_a_stage_that_made_it_worse(
    bert: TrainingResult, topics: World, work: Path
) -> None:
    options = replace(SMALL, method="contrastive", steps=1, dim=1)  # one number for 40 topics
    notes: list[str] = []
    report = learn(*topics, options, timed=True, work=work, note=notes.append).report
    before, after = (stage["curve"][-1]["floor"] for stage in report["stages"])
    assert after > before
    assert any(f"worse than the {before:.3f} of masked-LM" in note for note in notes)


@pytest.mark.parametrize("wordless", [slice(None), slice(0, 8, 1), slice(-8, None)])
def test_queries_without_a_known_word_are_not_used(tmp_path: Path, wordless: slice) -> None:
    """All texts, those of most sessions, those of the four newest."""
    texts = [f"{name * 3} food" for name in "abcdefghijklmnop"]
    texts[wordless] = [("[SEP]" * i, "\x01" * i)[i % 2] for i in range(len(texts[wordless]))]
    old = [[2 * (s % 4), 2 * (s % 4) + 1] for s in range(36)]
    sessions = Sessions.of([*old, *[[8 + 2 * s, 9 + 2 * s] for s in range(4)]])
    if wordless == slice(-8, None):
        data = learn(texts, sessions, replace(SMALL, epochs=1), timed=True, work=tmp_path).report
        assert data["data"]["training_sessions"] + data["data"]["validation_sessions"] == 36
        return
    with pytest.raises(InvalidInput, match="too few words to train on"):
        learn(texts, sessions, SMALL, timed=True, work=tmp_path)


def test_a_start_without_any_word_of_the_log_is_rejected(odd: World, tmp_path: Path) -> None:
    start = sentence_model(tmp_path / "model", odd.texts)
    letters = set("".join(odd.texts)) - {" "}
    another_script = {ord(letter): chr(0x1200 + ord(letter)) for letter in letters}
    texts = [text.translate(another_script) for text in odd.texts]
    options = replace(SMALL, method="contrastive", start=start)
    with pytest.raises(InvalidInput, match=r"0 of \d+ queries have a word.*from scratch"):
        learn(texts, odd.sessions, options, timed=True, work=tmp_path / "work")


def test_a_start_whose_files_are_damaged_is_rejected(odd: World, tmp_path: Path) -> None:
    start = sentence_model(tmp_path / "model", odd.texts)
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5_000])
    options = replace(SMALL, method="contrastive", start=start)
    with pytest.raises(InvalidInput, match=r"could not start from the sentence model .*Pass the"):
        learn(*odd, options, timed=True, work=tmp_path / "work")


def test_positions_that_start_after_padding_allow_fewer_tokens() -> None:
    from transformers import RobertaConfig, RobertaModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = RobertaConfig(vocab_size=9, intermediate_size=8, max_position_embeddings=20, **sizes)
    assert positions(RobertaModel(config), 64) == 18
    assert positions(published(SMALL, 400).bert, 64) == SMALL.max_line


def weights_of_export(encoder: TrainedEncoder) -> dict[str, Any]:
    import onnx

    graph = onnx.load_from_string(encoder.parts()["encoder_model.onnx"]).graph
    return {weight.name: onnx.numpy_helper.to_array(weight) for weight in graph.initializer}


def test_a_projection_is_exported_as_it_is(
    contrastive: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It subtracts what texts share, which is nearly everything for long and similar texts."""
    import onnx

    graph = onnx.load_from_string(contrastive.made.encoder.parts()["encoder_model.onnx"]).graph
    monkeypatch.setattr(export, "_SMALL", 100)  # the projection here has 512 numbers
    assert export._halved(graph) == []  # all others are in half precision already
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in graph.initializer}
    assert {w.dtype.name for w in weights.values() if w.size >= 512} == {"float16", "float32"}
    (matrix,) = (w for name, w in weights.items() if "projection" in name and w.size == 32 * 16)
    expected = contrastive.learnt.model.projection.weight.detach().numpy()
    assert matrix.dtype == np.float32
    assert np.array_equal(np.sort(matrix, axis=None), np.sort(expected, axis=None))


@pytest.mark.soak
def test_an_export_that_is_too_coarse_is_made_in_full_precision(
    contrastive: Whole, odd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {weight.dtype.name for weight in weights_of_export(contrastive.made.encoder).values()}
    assert "float16" in stored
    agree, first = finish_module._agreement, iter([0.9])
    monkeypatch.setattr(
        finish_module, "_agreement", lambda *rows: next(first, None) or agree(*rows)
    )

    sample = np.arange(20)
    texts = [odd.texts[i] for i in sample]
    again, worst = finish_module._exported(contrastive.learnt, sample, texts)
    assert "float16" not in {weight.dtype.name for weight in weights_of_export(again).values()}
    assert worst > 1 - 1e-5


def test_an_export_is_tried_in_half_and_in_full_precision(
    contrastive: Whole, odd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, asked, sample = contrastive.made.encoder, list[bool](), np.arange(20)

    def exported(*model: Any, half: bool, **options: Any) -> TrainedEncoder:
        asked.append(half)
        return made

    monkeypatch.setattr(finish_module, "served", exported)
    texts = [odd.texts[i] for i in sample]
    agree, first = finish_module._agreement, iter([0.9])
    monkeypatch.setattr(
        finish_module, "_agreement", lambda *rows: next(first, None) or agree(*rows)
    )
    assert finish_module._exported(contrastive.learnt, sample, texts)[0] is made
    assert asked == [True, False]
    assert finish_module._exported(contrastive.learnt, sample, texts)[0] is made
    assert asked == [True, False, True]
    monkeypatch.setattr(finish_module, "_agreement", lambda *rows: 0.9)
    with pytest.raises(InvalidInput, match=r"cosine 0\.900000, but at least 0\.999 is required"):
        finish_module._exported(contrastive.learnt, sample, texts)


@pytest.mark.soak
def test_starts_from_a_sentence_model_with_a_residual(odd: World, tmp_path: Path) -> None:
    start = sentence_model(tmp_path / "model", odd.texts)
    options = replace(
        SMALL, method="contrastive", start=start, residual=True, steps=60, static=False
    )
    learnt, made = trained(odd, options, tmp_path / "work", timed=False)
    assert [stage["name"] for stage in made.report["stages"]] == ["contrastive"]
    assert learnt.model.residual.weight.abs().max() > 0
    assert made.static is None
    assert made.report["data"]["split"] == "random"
    assert made.report["onnx_worst_cosine"] > 1 - 1e-3  # the residual is exported too
    floors = [check["floor"] for check in made.report["stages"][0]["curve"]]
    assert min(floors) < floors[0] - 0.3


def test_errors(topics: World, tmp_path: Path) -> None:
    few = Sessions.of([[0, 1]] * 19 + [[2, 2]] * 30)  # the latter have one distinct query
    with pytest.raises(InvalidInput, match=r"at least 20 sessions .* received 19"):
        learn(topics.texts, few, SMALL, timed=True, work=tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty"):
        no_model = replace(SMALL, method="contrastive", start=str(tmp_path / name))
        with pytest.raises(InvalidInput, match="could not start from the sentence model") as error:
            learn(*topics, no_model, timed=True, work=tmp_path)
        assert ".." not in str(error.value)  # some of the libraries' messages end in a full stop
    with pytest.raises(InvalidInput, match="dim must be at most hidden, 32; received 33"):
        replace(SMALL, method="contrastive", dim=33)
    with pytest.raises(InvalidInput, match="nextquery train LOG"):
        TrainedEncoder().fit(["cat"])
    with pytest.raises(InvalidInput, match="not fitted"):
        TrainedEncoder().encode(["cat"])


def test_queries_of_one_word_can_be_learnt(tmp_path: Path) -> None:
    texts = [letter * 3 for letter in "abcdefgh"]
    sessions = Sessions.of([[2 * (s % 4), 2 * (s % 4) + 1] for s in range(40)])
    short = replace(SMALL, method="contrastive", epochs=1, steps=2)
    learnt = learn(texts, sessions, short, timed=True, work=tmp_path)
    rows = learnt.reader.of(np.arange(8))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_loss_that_explodes_is_named(topics: World, tmp_path: Path) -> None:
    wild = replace(SMALL, mlm_rate=1e6, epochs=2)
    with pytest.raises(InvalidInput, match=r"the loss of the stage masked-lm is (nan|inf).*rate"):
        learn(*topics, wild, timed=True, work=tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_raises_an_error(topics: World, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="torch sees no GPU"):
        learn(*topics, replace(SMALL, device="cuda"), timed=True, work=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "gpt"}, "method must be one of bert, contrastive"),
        ({"hidden": 30, "heads": 4}, "multiple of heads"),
        ({"residual": True}, "belong to the method contrastive"),
        ({"mask": 0}, "mask must be a number above 0"),
        ({"pairs": 1}, "pairs must be a whole number of at least 2"),
        ({"rate": -1.0}, "rate must be a number above 0"),
        ({"device": "tpu"}, "device must be one of auto, cpu, cuda"),
        ({"vocabulary": 10**22}, "vocabulary must be .* and at most 10000000; received"),
        ({"hidden": 10**8, "heads": 1}, "hidden must be .* and at most 65536; received"),
        ({"mlm_rate": 1e40}, "mlm_rate must be .* at most 1e"),
        ({"seed": 1 << 32}, "seed must be .* at most 4294967295; received"),
    ],
)
def test_bad_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        TrainOptions(**options)
