"""`nextquery evaluate`: what policies that did not run would have earned, from the event log."""

from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.leave_out import moment
from nextquery.cli.output import Stages, err, out, print_json, table

if TYPE_CHECKING:
    from nextquery.service.evaluate import Evaluation


def evaluate(
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="A policy that did not run, or a variant, like lin-ucb-shared@alpha=0.1; "
            "repeatable.",
        ),
    ],
    pool: Annotated[str | None, typer.Option(help="The pool that the service serves.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="First moment to use, like 2026-03-01T12:00 (UTC if not said); policies learn "
            "from all before, too.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="First moment not to use.")
    ] = None,
    store: s.StoreUrl = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
    as_json: s.AsJson = False,
) -> None:
    """Estimate the hit rates of policies that did not run, from the propensities in the event log.

    Each policy learns from the log in its order, and is asked about every decision with what it
    could know then. Pass the settings of the service. Changes nothing, and may run beside it.
    """
    from nextquery.arms import ArmPool
    from nextquery.errors import InvalidInput

    settings = s.load_settings({"store": store, "pool": pool}, more=set, config=config).settings
    from nextquery.service.evaluate import evaluate as run
    from nextquery.service.log.store import Store

    if settings.pool is None:
        raise InvalidInput(
            "the candidates are found again in the pool, and no pool is set. Pass the one that the "
            "service serves: --pool POOL."
        )
    span = {"since": moment(since, "--since"), "until": moment(until, "--until")}
    opened = Store.open(settings.store, create=False)
    try:
        with Stages() as stages:
            done = run(
                opened,
                ArmPool.open(settings.pool),
                policy,
                settings.engine_options(),
                **span,
                progress=stages,
            )
    finally:
        opened.close()
    if as_json:
        print_json(done.to_dict())
    else:
        _show(done)


def _show(done: "Evaluation") -> None:
    title = f"{done.used:,} decisions of {done.sessions:,} sessions"
    parts = list(done.log) if done.slates else list(done.log)[:1]
    ran = ", ".join(done.ran)
    rows = [[ran, part, "it ran", *_cells(done.log[part])] for part in parts]
    for one in done.policies:
        for part in parts:
            found = one.estimates[part]
            rows += [[one.policy, part, name, *_cells(found[name])] for name in found]
    columns = ["policy", "hit rate of the", "estimate", "mean", "95% from", "to", "worth slates"]
    out().print(table(title, columns, rows, numbers=[3, 4, 5, 6]))
    unused = list(done.left_out.items())
    if unused:
        out().print(table("Not used", ["decisions", ""], [(n, why) for why, n in unused]))
    if done.erased_events:
        out().print(f"{done.erased_events:,} erased events say nothing any more.")
    for warning in done.warnings:
        err().print(f"warning: {warning}", markup=False, soft_wrap=True)
    for one in done.policies:
        for warning in one.warnings:
            err().print(f"warning: {one.policy}: {warning}", markup=False, soft_wrap=True)


def _cells(estimate: tuple[float, float, float, float]) -> list[str]:
    mean, low, high, effective = estimate
    return [f"{mean:.4f}", f"{low:.4f}", f"{high:.4f}", f"{effective:,.0f}"]
