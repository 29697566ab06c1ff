"""Examples: a person marks rows, and gets a query that finds such rows."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import Page, expect

from nextquery.service.process import ServiceProcess
from tests.explore.worlds import cheap_in_gent, homes
from tests.service.page.conftest import Open
from tests.service.page.test_views import serious


@pytest.fixture
def with_table(page_pool: Path, tmp_path: Path) -> Iterator[ServiceProcess]:
    homes(tmp_path)
    settings = {"log_level": "error", "explore": tmp_path / "homes.csv"}
    with ServiceProcess(page_pool, f"sqlite:///{tmp_path / 'e.db'}", settings=settings) as running:
        yield running


def mark(page: Page) -> list[str]:
    """Mark what is cheap and in Gent; return the numbers of the rows."""
    marked = []
    for line in page.locator(".marks tbody tr").all():
        price, _, city, *_ = line.locator("td:not(.tick)").all_inner_texts()
        home = {"price": None if price == "–" else int(price), "city": city}
        if cheap_in_gent(home):
            line.click()  # anywhere on the row
            expect(line.locator("input")).to_be_checked()
            marked.append(line.locator("input").get_attribute("data-row") or "")
    return marked


def restart(service: ServiceProcess) -> None:
    service.stop()
    service.start()


def shown(page: Page) -> list[str | None]:
    return [box.get_attribute("data-row") for box in page.locator(".marks input").all()]


def test_rows_become_a_query(with_table: ServiceProcess, open_page: Open, tmp_path: Path) -> None:
    page = open_page(with_table.url)
    page.locator("[data-view=examples]").click()
    title = page.locator("#rounds h2").first
    marks: list[list[str]] = []
    rows = []
    for number in range(1, 9):
        expect(title).to_contain_text(f"Round {number}:")
        rows.append(shown(page))
        marks.append(mark(page))
        page.locator("#next-round").click()
    expect(title).to_contain_text("Round 9:")
    expect(title).to_be_focused()
    count = sum(map(len, marks))
    assert count
    expect(page.locator(".figures")).to_contain_text(f"{count} relevant")
    sql = page.locator("#sql").inner_text()
    found = len(duckdb.execute(sql.replace("homes.csv", str(tmp_path / "homes.csv"))).fetchall())
    expect(page.locator(".figures dd").last).to_contain_text(f"{found:,}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    expect(page.locator(".bar-of .note")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == sql
    now = shown(page)
    half = page.locator(".marks input").nth(1)
    half.check()
    restart(with_table)  # the service knows nothing of the labels
    page.reload()
    expect(title).to_contain_text("Round 9:")
    assert (shown(page), page.locator("#sql").inner_text()) == (now, sql)
    expect(half).to_be_checked()
    page.locator("#take-back").click()
    expect(title).to_contain_text("Round 8:")
    assert shown(page) == rows[-1]
    checked = page.locator(".marks input:checked")
    assert [box.get_attribute("data-row") for box in checked.all()] == marks[-1]
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(page) == []
    page.locator("#start-over").click()
    expect(title).to_contain_text("Round 1:")
    expect(page.locator("#sql")).to_have_count(0)
    expect(page.locator("#rounds")).to_contain_text("No row is relevant yet")


def test_the_table_changed_meanwhile(
    with_table: ServiceProcess, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(f"{with_table.url}/#examples", strict=False)
    expect(page.locator("#rounds h2").first).to_contain_text("Round 1:")
    page.locator("#next-round").click()
    expect(page.locator("#rounds h2").first).to_contain_text("Round 2:")
    homes(tmp_path, rows=500)
    restart(with_table)
    page.locator("#next-round").click()
    problem = page.locator("[data-state=error]")
    expect(problem).to_contain_text("the table has changed")
    problem.get_by_role("button", name="Start over").click()
    expect(page.locator("#rounds h2").first).to_contain_text("Round 1:")
    expect(page.locator(".figures")).to_contain_text("500 rows")


def test_without_a_table_there_is_no_room(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(f"{service.url}/#examples")
    expect(page.locator("#box")).to_be_visible()
    expect(page.locator("[data-view=examples]")).to_have_count(0)
