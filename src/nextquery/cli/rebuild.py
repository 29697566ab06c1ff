"""`nextquery rebuild`: the model from the log alone."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import out, print_json


def rebuild(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="The pool the store was begun with.")
    ],
    store: s.StoreUrl = None,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the recomputed model as the newest snapshot.")
    ] = False,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Recompute the model from the event log and compare it with the service's newest snapshot.

    Fails when any number differs by more than 1e-9.
    """
    from nextquery.arms import ArmPool
    from nextquery.errors import Damaged

    settings = s.loaded({"store": store}, config=config).settings
    from nextquery.service.rebuild import ALLOWED
    from nextquery.service.rebuild import rebuild as run
    from nextquery.service.store import Store

    done = run(Store.open(settings.store, create=False), ArmPool.open(pool), save=save)
    if as_json:
        print_json(done._asdict())
    elif done.snapshot is None:
        out().print(f"recomputed to position {done.position}; there is no snapshot to compare with")
    else:
        out().print(
            f"recomputed to position {done.position}; at the snapshot of position {done.snapshot} "
            f"the largest difference is {done.difference:g}"
        )
    if done.difference > ALLOWED:
        raise Damaged(
            f"the snapshot differs from the log by {done.difference:g}; at most {ALLOWED:g} is "
            "allowed. The log is the truth: rebuild with --save, and restart the service."
        )
