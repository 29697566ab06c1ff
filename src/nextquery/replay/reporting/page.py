"""A report as a list of blocks, written as Markdown and as one self-contained HTML page."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Heading(NamedTuple):
    """A title; level 1 is the title of the report."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """Plain text."""

    text: str


class Table(NamedTuple):
    """Rows under a header; all cells are strings."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


class Picture(NamedTuple):
    """A figure by the stem of its files (PNG and SVG), with its caption."""

    stem: str
    caption: str


Block = Heading | Paragraph | Table | Picture


def markdown(blocks: Sequence[Block]) -> str:
    """Return the report as Markdown; figures link to the PNG files next to it.

    >>> print(markdown([Heading("A"), Table(["x", "y"], [["1", "a|b"]])]))
    ## A
    <BLANKLINE>
    | x | y |
    |---|---|
    | 1 | a\\|b |
    <BLANKLINE>
    """
    parts = []
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {text}\n")
            case Paragraph(text):
                parts.append(f"{text}\n")
            case Table(header, rows, caption):
                lines = [header, ["---"] * len(header), *rows]
                drawn = [_markdown_row(line, rule=at == 1) for at, line in enumerate(lines)]
                parts.append("\n".join([f"{caption}\n"] * bool(caption) + drawn) + "\n")
            case Picture(stem, caption):
                parts.append(f"![{caption}](figures/{stem}.png)\n\n*{caption}*\n")
    return "\n".join(parts)


def page(blocks: Sequence[Block], figures: Path) -> str:
    """Return the report as one self-contained HTML page: figures are inline SVG."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Report")
    body = "\n".join(_html(block, figures) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _markdown_row(cells: Sequence[str], *, rule: bool) -> str:
    if rule:
        return "|" + "|".join(cells) + "|"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _html(block: Block, figures: Path) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{html.escape(text)}</p>"
        case Table(header, rows, caption):
            head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in header)
            lines = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                for row in rows
            )
            title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
            table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
            return f'<div class="wide">{table}</div>'
        case Picture(stem, caption):
            text = html.escape(caption)
            drawing = (figures / f"{stem}.svg").read_text(encoding="utf-8")
            inline = drawing[drawing.index("<svg") :].replace(
                "<svg", f'<svg role="img" aria-label="{text}"', 1
            )
            # Ids are made unique per figure, because all figures share one page.
            inline = inline.replace('id="', f'id="{stem}-').replace("url(#", f"url(#{stem}-")
            inline = inline.replace('href="#', f'href="#{stem}-')
            return f"<figure>{inline}<figcaption>{text}</figcaption></figure>"


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.5rem; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption, caption { color: #444; font-size: 0.9rem; text-align: left; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #ddd; text-align: left; }
thead th { border-bottom: 2px solid #1a1a1a; vertical-align: bottom; }
"""
