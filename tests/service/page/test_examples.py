"""Examples: a person marks rows, and gets a query that finds such rows."""

from pathlib import Path

import duckdb
from playwright.sync_api import Page, expect

from nextquery.service.process import ServiceProcess
from tests.explore.worlds import cheap_in_gent, homes
from tests.service.page.conftest import Locked, Open
from tests.service.page.test_views import serious

ROUNDS = 3
ROWS = "boxes => boxes.map(box => box.dataset.row)"
FROM_SEED = """seed => sessionStorage.setItem(
    "nextquery.examples", JSON.stringify({ seed, table: null, rounds: [], marked: [] })
)"""


def mark(page: Page) -> list[str]:
    """Mark what is cheap and in Gent; return the numbers of the rows."""
    marked = []
    lines = page.locator(".marks tbody tr")
    cells = "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText))"
    for at, (_, price, _, city, *_) in enumerate(lines.evaluate_all(cells)):
        home = {"price": None if price == "–" else int(price), "city": city}
        if cheap_in_gent(home):
            line = lines.nth(at)
            line.click()  # anywhere on the row
            expect(line.locator("input")).to_be_checked()
            marked.append(line.locator("input").get_attribute("data-row") or "")
    return marked


def table(service: ServiceProcess) -> Path:
    return Path(str(service.settings["explore"]))


def restart(service: ServiceProcess) -> None:
    service.stop()
    service.start()


def shown(page: Page) -> list[str | None]:
    rows: list[str | None] = page.locator(".marks input").evaluate_all(ROWS)
    return rows


def test_rows_become_a_query(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    page.evaluate(FROM_SEED, 1)  # else each run would show other rows
    page.locator("[data-view=examples]").click()
    title = page.locator("#rounds h2").first
    marks: list[list[str]] = []
    rows = []
    for number in range(1, ROUNDS + 1):
        expect(title).to_contain_text(f"Round {number}:")
        rows.append(shown(page))
        marks.append(mark(page))
        page.locator("#next-round").click()
    expect(title).to_contain_text(f"Round {ROUNDS + 1}:")
    expect(title).to_be_focused()
    count = sum(map(len, marks))
    assert count
    expect(page.locator(".figures")).to_contain_text(f"{count} relevant")
    sql = page.locator("#sql").inner_text()
    found = len(duckdb.execute(sql.replace("homes.csv", str(table(service)))).fetchall())
    expect(page.locator(".figures dd").last).to_contain_text(f"{found:,}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    expect(page.locator(".bar-of .note")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == sql
    now = shown(page)
    half = page.locator(".marks input").nth(1)
    half.check()
    restart(service)  # the service knows nothing of the labels
    page.reload()
    expect(title).to_contain_text(f"Round {ROUNDS + 1}:")
    assert (shown(page), page.locator("#sql").inner_text()) == (now, sql)
    expect(half).to_be_checked()
    page.locator("#take-back").click()
    expect(title).to_contain_text(f"Round {ROUNDS}:")
    assert shown(page) == rows[-1]
    checked = page.locator(".marks input:checked")
    assert checked.evaluate_all(ROWS) == marks[-1]
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(page) == []
    page.locator("#start-over").click()
    expect(title).to_contain_text("Round 1:")
    expect(page.locator("#sql")).to_have_count(0)
    expect(page.locator("#rounds")).to_contain_text("No row is relevant yet")


def test_the_table_changed_meanwhile(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(f"{service.url}/#examples", strict=False)
    expect(page.locator("#rounds h2").first).to_contain_text("Round 1:")
    page.locator("#next-round").click()
    expect(page.locator("#rounds h2").first).to_contain_text("Round 2:")
    homes(table(service).parent, rows=500)
    restart(service)
    page.locator("#next-round").click()
    problem = page.locator("[data-state=error]")
    expect(problem).to_contain_text("the table has changed")
    problem.get_by_role("button", name="Start over").click()
    expect(page.locator("#rounds h2").first).to_contain_text("Round 1:")
    expect(page.locator(".figures")).to_contain_text("500 rows")


def test_without_a_table_there_is_no_room(locked: Locked, open_page: Open) -> None:
    page = open_page(f"{locked.url}/#examples", strict=False)
    expect(page.locator("#box")).to_be_visible()
    expect(page.locator("[data-view=examples]")).to_have_count(0)
