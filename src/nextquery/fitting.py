"""Fit the encoder of a log, or take a saved one, if it can represent the log's queries."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nextquery import folders
from nextquery.checks import installed
from nextquery.encode import Encoder, LsaEncoder, Sessions, encoder_by_name
from nextquery.encode.auto import AUTO, by_characters, share_known
from nextquery.encode.encoder import KIND, VERSION
from nextquery.encode.tokens import check_known, dense, runs_on, sample
from nextquery.errors import NotAFolder

Progress = Callable[[str, float | None], None]
FOR_FITTING = ("ingest", "scipy", "sklearn", "wordllama")
"""The extra that a fit needs, and its packages."""
_FITTED = "nextquery fitted encoder"


class Fitted(NamedTuple):
    """A fitted encoder in its folder."""

    folder: folders.Folder
    represented: float  #: share of the queries that its vocabulary can represent
    resumed: bool  #: whether an earlier run fitted it


def fitted_on(
    name: str,
    texts: Sequence[str],
    sessions: Sessions,
    *,
    profile: str,
    work: Path,
    made_from: str,
    progress: Progress,
) -> Fitted:
    """Return the encoder called `name`, fitted, or the saved one in the folder `name`.

    Raises an error if it cannot represent most of the texts.

    Parameters
    ----------
    name : ``auto``, the name of an encoder, or the folder of a saved one.
    texts : the distinct queries of the log.
    sessions : those to fit on, of two or more queries.
    profile : ``text`` or ``sql``.
    work : the folder for the fitted encoder.
    made_from : what the texts and sessions were made from; an encoder fitted on the same is reused.
    progress : called with the stage and the fraction done.
    """
    if (Path(name) / folders.MANIFEST).exists():
        saved = folders.read(name, kind=KIND, version=VERSION)
        share = Encoder.of(saved).share_known(texts)
        check_known(name, share)
        return Fitted(saved, share, False)
    installed(*FOR_FITTING)
    encoder = encoder_for(name, texts, sessions, profile)
    share = encoder.share_known(texts)
    check_known(encoder.name, share)
    params = json.dumps(encoder.get_params(), sort_keys=True)
    made_from = f"{made_from} {encoder.name} {params}"
    folder = finished(work / "fitted", _FITTED, made_from)
    if folder is not None:
        return Fitted(folder, share, True)
    encoder.progress = lambda stage, done: progress(f"fit ({stage})", done)
    progress("fit", None)
    encoder.fit(texts, sessions)
    progress("fit", 1.0)
    encoder.progress = None
    meta = {"encoder": encoder.meta(), "made_from": made_from}
    where, parts = work / "fitted", encoder.parts()
    folder = folders.write(where, kind=_FITTED, version=1, parts=parts, meta=meta)
    return Fitted(folder, share, False)


def encoder_for(name: str, texts: Sequence[str], sessions: Sessions, profile: str) -> Encoder:
    """Return the encoder to fit, with options that suit the script of the texts.

    >>> encoder_for("auto", ["የጉንፋን ክትባት", "የንፋስ ኃይል"], Sessions.of([]), "text").name
    'lsa'
    """
    sampled = sample(texts)
    if name == LsaEncoder.name and profile == "text" and runs_on(sampled):
        return by_characters(dense=dense(sampled))  # there are no words to count
    about: dict[str, Any] = {"profile": profile}
    if name == AUTO and profile == "text":
        about |= {"known": share_known(sampled), "dense": dense(sampled)}
    return encoder_by_name(name, n_sessions=sessions.size, n_texts=len(texts), **about)


def finished(path: Path, kind: str, made_from: str) -> folders.Folder | None:
    """Return the result of a stage from an earlier run, if it was made from the same input."""
    try:
        folder = folders.read(path, kind=kind, version=1)
    except NotAFolder:
        return None
    return folder if folder.meta["made_from"] == made_from else None
