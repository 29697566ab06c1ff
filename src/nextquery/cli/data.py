"""Commands for the data of a store: export, backup, restore, erase a person, take over a log."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import options as s
from nextquery.cli.options import this_user
from nextquery.cli.output import Stages, out, print_json

if TYPE_CHECKING:
    from nextquery.service.erasure.files import CleanedFiles
    from nextquery.service.erasure.rights import Erasure
    from nextquery.service.maintain.backup import Proof


def export(
    format: Annotated[
        str,
        typer.Option(
            help="ubi (JSON Lines, UBI 1.3), parquet (one row per entry), obp (Open Bandit "
            "Pipeline), vw (VowpalWabbit), gru4rec or hred (sessions)."
        ),
    ] = "ubi",
    to: Annotated[
        Path | None, typer.Option("--out", help="The file to write; standard output by default.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="The pool that the service serves; for the format obp.")
    ] = None,
    store: s.StoreUrl = None,
    config: s.Config = None,
) -> None:
    """Write every decision with its outcome, in the order of the log."""
    from nextquery.checks import one_of

    settings = s.load_settings({"store": store, "pool": pool}, config=config).settings
    from nextquery.service.erasure.files import export_to, write
    from nextquery.service.exchange.export import FORMATS
    from nextquery.service.log.store import Store

    one_of(format, "format", FORMATS)
    needs_pool = FORMATS[format].pages is None
    event_log = Store.open(settings.store, create=False)
    if to is None:
        write(event_log, sys.stdout.buffer, format, settings.pool if needs_pool else None)
        sys.stdout.buffer.flush()
    else:
        export_to(event_log, to, format, settings.pool if needs_pool else None)


def backup(
    to: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file to write.")],
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Copy a store into one file while the service runs, and prove the copy.

    The file is an SQLite database, also for a store on PostgreSQL. The model is computed again from
    the copied log and compared with the store's newest snapshot.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.store import Store
    from nextquery.service.maintain.backup import backup as run

    opened = Store.open(settings.store, create=False)
    try:
        proof = run(opened, to)
    finally:
        opened.close()
    _print_proof(proof, f"backed up {opened.name} to {to}", as_json=as_json)


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file that nextquery backup wrote.")
    ],
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Make a new store from a backup, and prove it: the same events, the same model.

    The store must not exist yet, or be an empty PostgreSQL database. Serve it with the pool that it
    was made with.
    """
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.database import without_password
    from nextquery.service.maintain.backup import restore as run

    proof = run(file, settings.store)
    _print_proof(proof, f"restored {file} as {without_password(settings.store)}", as_json=as_json)


def _print_proof(proof: "Proof", what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(proof._asdict())
        return
    out().print(
        f"{what}: {proof.position} events; the model computed from them differs by "
        f"{proof.difference:g} at position {proof.position}",
        markup=False,
    )


NOTHING_FOUND = 5


def forget(
    user: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The user_id of the requests; of a pool, of the log."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="The session_id of the requests.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="Only the user or session of this owner of keys; by default of all."),
    ] = None,
    pool: Annotated[
        Path | None,
        typer.Option(
            help="Forget the user in this pool too, if it was made with --personal; by default in "
            "the pool of the configuration, if it is a folder."
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print what is known as JSON, and change nothing.")
    ] = False,
    clean_only: Annotated[
        bool,
        typer.Option(
            "--clean", help="Only finish what was interrupted, and clean the files of the store."
        ),
    ] = False,
    dirty: Annotated[
        bool,
        typer.Option(
            "--clean-later", help="Do not write the files of the store anew: run --clean later."
        ),
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Erase a user or a session from the store, from exports and from a pool.

    All their events become tombstones, so the model forgets what they taught; arms that too few
    others typed end. Then the files of the store and exports are written anew, for which other
    processes wait. Running services recompute their model in the background. If it is interrupted,
    the same command finishes it.

    Exits with 5 if nothing is known of them.
    """
    options = {"store": store, "pool": None if pool is None else str(pool)}
    settings = s.load_settings(options, config=config).settings
    from nextquery.arms import ArmPool
    from nextquery.errors import InvalidInput
    from nextquery.service.erasure.erase import finish
    from nextquery.service.erasure.files import NOT_NECESSARY, clean, needs_cleaning
    from nextquery.service.erasure.person import anything
    from nextquery.service.erasure.rights import NO_ERASURE, DataSubject, erase, known
    from nextquery.service.log.store import Clock, Store
    from nextquery.service.log.writer import Writer
    from nextquery.service.model.prepare import check_pool

    if clean_only and (user or session or show or dirty):
        raise InvalidInput("--clean goes with no other choice. Run it alone, or leave it out.")
    opened = Store.open(settings.store, create=False)
    arms: ArmPool | None = None
    if pool is not None or (settings.pool and Path(settings.pool).is_dir()):
        arms = ArmPool.open(str(settings.pool))
    if arms is not None:
        check_pool(opened, arms, or_next=True)
    secret = settings.user_hash_secret.get_secret_value()
    person = DataSubject(user, session, owner)
    if show:
        data = known(opened, arms, person, secret)
        print_json(data)
        raise typer.Exit(0 if anything(data) else NOTHING_FOUND)
    writer = Writer(opened, Clock(), written=lambda: None)
    erased, cleaned = NO_ERASURE, NOT_NECESSARY
    try:
        with Stages() as stages:
            if clean_only:
                finish(opened, lambda write: writer.submit(write).result())
            else:
                erased = erase(
                    opened,
                    arms,
                    person,
                    secret,
                    lambda write: writer.submit(write).result(),
                    by=this_user(),
                    progress=stages,
                )
            due = not dirty and needs_cleaning(opened)
            if due:
                stages("write files anew", None)
                cleaned = clean(opened)
                stages("write files anew", 1.0)
    finally:
        writer.close()
        opened.close()
    _print_erasure(erased, cleaned, clean_only=clean_only, dirty=dirty, as_json=as_json)
    if not erased.anything and not clean_only:
        raise typer.Exit(NOTHING_FOUND)


def _print_erasure(
    erased: "Erasure", cleaned: "CleanedFiles", *, clean_only: bool, dirty: bool, as_json: bool
) -> None:
    """Say what was done, and what is left to do."""
    log, pool = erased
    if as_json:
        done = {**log._asdict(), "pool_sessions": pool.sessions, "pool_arms": len(pool.arms)}
        print_json({**done, **cleaned._asdict()})
        return
    tell = out().print
    if not clean_only:
        if not erased.anything:
            tell("nothing is known of this id, so nothing was erased; check the id and the owner")
        else:
            tell(
                f"position {log.position}: erased {log.decisions} decisions ({log.events} events) "
                f"and {log.rows} other rows; {log.arms + len(pool.arms)} arms ended"
            )
        if pool.anything:
            tell(
                f"{pool.sessions} sessions left the pool; services that serve it make their "
                "memory of what is left"
            )
    if cleaned.vacuumed:
        tell("the files of the store were written anew")
    elif dirty and erased.anything:
        tell("the files of the store may still have their bytes; run nextquery forget --clean")
    for file in cleaned.exports:
        tell(f"export written anew: {file}", markup=False)
    for file in cleaned.deleted:
        tell(f"export deleted, since it cannot be made any more: {file}", markup=False)
    for file in cleaned.elsewhere:
        tell(f"export on another machine, delete it there: {file}", markup=False)


def take_over(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="The new pool.")],
    old_pool: Annotated[
        Path, typer.Option(metavar="OLD_POOL", help="The pool that the old store was created with.")
    ],
    old_store: Annotated[
        str, typer.Option(metavar="URL", help="The event log that has learnt; it does not change.")
    ],
    store: s.StoreUrl = None,
    policy: Annotated[str | None, typer.Option(help="The policy, as in nextquery serve.")] = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Begin the store of a new pool with what an old store has learnt, then serve the new pool.

    Takes over the model's live learning, blocks, removed arms, arms that were added live, and held
    and rejected queries. The new store must be empty.
    """
    options = {"store": store, "policy": policy}
    settings = s.load_settings(options, more=set, config=config).settings
    from nextquery.arms import ArmPool
    from nextquery.service.log.store import Store
    from nextquery.service.maintain.take_over import take_over as run

    new, old = ArmPool.open(pool), ArmPool.open(old_pool)
    source, empty = Store.open(old_store, create=False), Store.open(settings.store)
    with Stages() as stages:
        done = run(
            new,
            empty,
            settings.engine_options(),
            old_pool=old,
            old_store=source,
            progress=lambda done, total: stages(
                "learn from past sessions", done / total if total else 1.0
            ),
        )
    if as_json:
        print_json(done._asdict())
        return
    out().print(
        f"{empty.name} begins with {done.updates} live updates, {done.arms} added arms, "
        f"{done.removed} removed arms, {done.blocked} blocks, {done.held} held and "
        f"{done.rejected} rejected queries",
        markup=False,
    )
