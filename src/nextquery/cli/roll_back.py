"""`nextquery roll-back` and `nextquery end-fallback`: what operators do about a bad model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.changes import this_user, write_all
from nextquery.cli.output import out, print_json

if TYPE_CHECKING:
    from nextquery.service.log.writer import Write


def roll_back(
    to: Annotated[
        int | None, typer.Option(metavar="POSITION", help="What the model was here, it is again.")
    ] = None,
    forward: Annotated[
        bool, typer.Option("--forward", help="End the newest roll-back, as if it had never been.")
    ] = False,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Make the model what it was at a position of the log, or bring back what was left out.

    Learning goes on from there, with decisions made after the roll-back. Running services compute
    the model again in the background. Nothing leaves the log or the statistics.
    """
    from nextquery.errors import InvalidInput
    from nextquery.service.log.teaching import Forward, RollBack

    if (to is None) != forward:
        raise InvalidInput("pass --to POSITION or --forward, and only one of them.")
    by = this_user()
    chosen: Write[int] = Forward(by) if to is None else RollBack(to, by)
    what = "forward again" if to is None else f"the model is that of position {to} now"
    _write(chosen, what, store=store, config=config, as_json=as_json)


def end_fallback(
    policy: Annotated[
        str | None, typer.Option(help="The policy that answers again; by default, all.")
    ] = None,
    store: s.StoreUrl = None,
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Let policies answer again that were found worse than the most similar queries.

    Find out first why they were worse, and roll the model back if it was fooled. The watch begins
    anew: if they are still worse, the service falls back again.
    """
    from nextquery.service.log.teaching import EndFallback

    chosen = EndFallback(this_user(), policy)
    _write(
        chosen,
        f"{policy or 'every policy'} answers again",
        store=store,
        config=config,
        as_json=as_json,
    )


def _write(
    change: "Write[int]",
    what: str,
    *,
    store: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    settings = s.load_settings({"store": store}, config=config).settings
    from nextquery.service.log.store import Store

    opened = Store.open(settings.store, create=False)
    try:
        [position] = write_all(opened, [change])
    finally:
        opened.close()
    if as_json:
        print_json({"position": position})
    else:
        out().print(f"position {position}: {what}")
