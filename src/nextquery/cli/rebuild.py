"""`nextquery rebuild`: recompute the model from the log."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import out, print_json


def rebuild(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="The pool that the store was created with.")
    ],
    store: s.StoreUrl = None,
    save: Annotated[
        bool, typer.Option("--save", help="Save the recomputed model as the newest snapshot.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Replace events that cannot be read or applied by void ones, which keep them.",
        ),
    ] = False,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Recompute the model from the event log and compare it with the service's newest snapshot.

    Fails if any number differs by more than 1e-9, or if an event cannot be read or applied, which
    would also keep the service from starting.
    """
    from nextquery.arms import ArmPool
    from nextquery.errors import Damaged, InvalidInput

    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.store import Store
    from nextquery.service.maintain.repair import AGREE, warning
    from nextquery.service.maintain.repair import rebuild as run
    from nextquery.service.maintain.repair import repair as mend
    from nextquery.service.model.prepare import check_pool
    from nextquery.service.model.snapshots import save_snapshot

    opened, arms = Store.open(settings.store, create=False), ArmPool.open(pool)
    if opened.head().position == 0:
        raise InvalidInput(f"{opened.name} has no events. Run nextquery serve POOL first.")
    check_pool(opened, arms)
    repaired = mend(opened, arms) if repair else []
    done = run(opened, arms)
    position = done.state.position
    if save:
        save_snapshot(opened, done.state, keep=1)
    opened.close()
    for event in () if as_json else repaired:
        out().print(f"repaired event {event.position}: {event.why}", markup=False)
    if not as_json and (undone := warning(repaired)):
        out().print(undone, markup=False)
    if as_json:
        compared = done.snapshot > 0
        print_json(
            {
                "position": position,
                "snapshot": done.snapshot if compared else None,
                "difference": done.difference if compared else None,
                "saved": save,
                **({"repaired": [event._asdict() for event in repaired]} if repair else {}),
            }
        )
    elif done.snapshot == 0:
        out().print(f"recomputed to position {position}; there is no snapshot to compare with")
    else:
        out().print(
            f"recomputed to position {position}; at the snapshot of position {done.snapshot} the "
            f"largest difference is {done.difference:g}"
        )
    if not done.agrees and not save:
        raise Damaged(
            f"the snapshot differs from the log by {done.difference:g}; at most {AGREE:g} is "
            "allowed. Trust the log: run rebuild with --save, and restart the service."
        )
