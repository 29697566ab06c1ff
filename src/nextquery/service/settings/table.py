"""The table in docs/reference/settings.md: ``python -m nextquery.service.settings.table``."""

from pydantic import SecretStr

from nextquery.service.settings.settings import Settings


def settings_table() -> str:
    """Return every setting with its default and its description, as a Markdown table.

    >>> settings_table().splitlines()[2]
    '| `pool` | — | The pool folder to serve. |'
    """
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        if isinstance(default, bool):
            default = str(default).lower()
        shown = "—" if default in (None, "", []) else f"`{default}`"
        lines.append(f"| `{name}` | {shown} | {field.description} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(settings_table())
