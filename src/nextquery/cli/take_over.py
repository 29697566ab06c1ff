"""`nextquery take-over`: begin the store of a new pool with what an old one has learnt."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import Stages, out, print_json


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
    learnt, empty = Store.open(old_store, create=False), Store.open(settings.store)
    with Stages() as stages:
        done = run(
            new,
            empty,
            settings.engine_options(),
            old_pool=old,
            old_store=learnt,
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
