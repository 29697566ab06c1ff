"""`nextquery algorithms`: every registered policy, with what it assumes and where it is from."""

from typing import Any

from nextquery.cli.log_options import AsJson
from nextquery.cli.output import out, print_json, table


def algorithms(as_json: AsJson = False) -> None:
    """List the policies: assumptions, parameters with their defaults, references."""
    from nextquery.policies.registry import described

    rows = described()
    if as_json:
        print_json(rows)
        return
    columns = ["name", "assumes", "parameters", "reference"]
    shown = [
        (_name(row), row["assumptions"], _parameters(row["parameters"]), row["reference"])
        for row in rows
    ]
    out().print(table("Policies (--policy)", columns, shown))
    out().print("* the order of rewards matters: in the library and in anchored experiments only")


def _name(row: dict[str, Any]) -> str:
    return f"{row['name']} *" if row["order_matters"] else str(row["name"])


def _parameters(params: dict[str, Any]) -> str:
    given = {key: value for key, value in params.items() if key != "seed"}
    return ", ".join(f"{key}={'none' if value is None else value}" for key, value in given.items())
