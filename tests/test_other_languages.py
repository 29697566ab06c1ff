"""Logs in Chinese, Arabic, Russian and Amharic, from ingest to the service (invented queries)."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery.build.ingest import ingest
from nextquery.cli import app
from nextquery.encode import LsaEncoder, StaticEncoder
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from tests.logs_for_tests import pets
from tests.service.worlds import options

ANY = LogOptions(language="any")


class Language(NamedTuple):
    """The queries of each topic, and a query that is not in the log, on the topic flu."""

    topics: dict[str, list[str]]
    typed: str

    @property
    def queries(self) -> set[str]:
        return {query for queries in self.topics.values() for query in queries}


TYPED = {
    "zh": "流感 疫苗！",
    "ar": "لقاح الانفلونزا للأطفال؟",
    "ru": "Прививка от Гриппа детям",
    "am": "የጉንፋን ክትባት ለልጆች።",
}


def language(code: str) -> Language:
    topics: dict[str, list[str]] = {}
    file = Path(__file__).with_name("queries_in_four_scripts.tsv")
    for line in file.read_text(encoding="utf-8").splitlines()[1:]:
        of, topic, query = line.split("\t")
        if of == code:
            topics.setdefault(topic, []).append(query)
    return Language(topics, TYPED[code])


def write(path: Path, **users_of: int) -> Path:
    """Write a log: each user asks four queries of one topic, starting at one of them."""
    rows = ["user_id\tsession_id\ttime\tquery"]
    for code, users in users_of.items():
        topics = list(language(code).topics.values())
        for user in range(users):
            queries, first = topics[user % 6], user // 6
            for step in range(4):
                time = f"2024-02-{user % 28 + 1:02d} 10:{step:02d}:00"
                query = queries[(first + step) % 6]
                rows.append(f"{code}{user}\t{code}{user}\t{time}\t{query}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=sorted(TYPED))
def pool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    ingest(write(folder / "log.tsv", **{request.param: 36}), folder / "pool", ANY)
    return request.param, folder / "pool"


def test_every_query_becomes_an_arm_and_the_encoder_knows_the_script(
    pool: tuple[str, Path],
) -> None:
    code, folder = pool
    opened = nq.ArmPool.open(folder)
    assert set(opened.texts) == language(code).queries
    assert opened.origin is not None
    assert opened.origin.report["options"]["language"] == "any"
    assert sum(rule["removed"] for rule in opened.origin.report["rules"]) == 0
    assert opened.origin.report["encoder"]["represented"] >= 0.95
    kind = {"ru": StaticEncoder}.get(code, LsaEncoder)
    assert isinstance(opened.encoder, kind)
    assert opened.vectors.any(axis=1).all()


def test_recommend_answers_a_query_that_is_not_in_the_log(pool: tuple[str, Path]) -> None:
    code, folder = pool
    said = language(code)
    done = CliRunner().invoke(app, ["recommend", str(folder), said.typed, "--json", "-m", "3"])
    assert done.exit_code == 0, done.output
    found = [row["query"] for row in json.loads(done.stdout)["recommendations"]]
    assert sum(query in said.topics["flu"] for query in found) >= 2


def test_the_service_answers(pool: tuple[str, Path], tmp_path: Path) -> None:
    code, folder = pool
    said = language(code)
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    engine = Engine.start(nq.ArmPool.open(folder), store, options())
    try:
        place = engine.catalogue.place(said.topics["flu"][0] + " ?!")
        assert place.arm is not None  # cleaned with the rules of its log
        new = engine.catalogue.place(said.typed)
        assert new.arm is None
        assert new.may_become_arm
        decision = engine.recommend(session_id="s", query=said.typed, m=3)
        shown = [entry.text for entry in decision.recommendations]
        assert sum(query in said.topics["flu"] for query in shown) >= 2
        assert not engine.catalogue.place(
            f"{said.typed} ００４９１７１１２３４５６７"
        ).may_become_arm
        assert not engine.catalogue.place(f"{said.typed} bob@example.com").may_become_arm
    finally:
        engine.close()
        store.close()


def test_by_default_only_english_sessions_are_kept(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'language' removed most of them \(144\).*or any"):
        ingest(write(tmp_path / "log.tsv", ru=36), tmp_path / "pool")


@pytest.mark.parametrize(("foreign", "warns"), [(36, True), (0, False)])
def test_sessions_that_go_for_their_language_are_a_warning(
    tmp_path: Path, foreign: int, warns: bool
) -> None:
    log, pool = pets(tmp_path / "log.tsv", users=30), tmp_path / "pool"
    if foreign:
        other = write(tmp_path / "other.tsv", ru=foreign).read_text().splitlines()[1:]
        log.write_text("\n".join([log.read_text().rstrip(), *other]) + "\n")
    done = CliRunner().invoke(app, ["ingest", str(log), "--out", str(pool), "--encoder", "lsa"])
    assert done.exit_code == 0, done.output
    assert ("Keep them with --language any" in done.stderr) == warns


def test_one_language_of_a_mixed_log(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", ru=36, ar=36)
    made = ingest(log, tmp_path / "pool", LogOptions(language="ar"))
    assert set(made.pool.texts) == language("ar").queries
    both = ingest(log, tmp_path / "pool", ANY)
    assert len(both.pool) == 72


@pytest.mark.parametrize("encoder", ["static", "projected", "tuned"])
@pytest.mark.parametrize(("code", "share"), [("am", "100%"), ("ar", "100%")])
def test_an_encoder_that_does_not_know_the_script_is_refused(
    tmp_path: Path, encoder: str, code: str, share: str
) -> None:
    log = write(tmp_path / "log.tsv", **{code: 36})
    refused = rf"the encoder {encoder} cannot represent {share} of the queries.*--encoder lsa"
    with pytest.raises(InvalidInput, match=refused):
        ingest(log, tmp_path / "pool", ANY, encoder=encoder)
    assert not (tmp_path / "pool").exists()


def test_a_saved_encoder_of_another_language_is_refused(tmp_path: Path) -> None:
    StaticEncoder(dim=32).fit(["deep learning", "apple pie"]).save(tmp_path / "english")
    log = write(tmp_path / "log.tsv", am=36)
    with pytest.raises(InvalidInput, match=r"english cannot represent 100% of the queries"):
        ingest(log, tmp_path / "pool", ANY, encoder=str(tmp_path / "english"))


def test_a_part_in_another_script_is_a_warning(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", ru=36, am=18)
    pool = tmp_path / "pool"
    arguments = ["ingest", str(log), "--out", str(pool), "--language", "any"]
    done = CliRunner().invoke(app, [*arguments, "--encoder", "static"])
    assert done.exit_code == 0, done.output
    assert re.search(r"the encoder static cannot represent \d\d% of the queries", done.stderr)
    assert "--encoder lsa" in done.stderr
    done = CliRunner().invoke(app, [*arguments, "--encoder", "lsa"])
    assert done.exit_code == 0, done.output
    assert "cannot represent" not in done.stderr


def test_lsa_counts_characters_where_there_are_no_spaces(tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", zh=36)
    encoder = ingest(log, tmp_path / "pool", ANY, encoder="lsa").pool.encoder
    assert isinstance(encoder, LsaEncoder)
    assert encoder.get_params()["analyzer"] == "char"
    assert encoder.get_params()["grams"] == [1, 3]
