"""Take screenshots of the page for the documentation, and time how long its map takes to draw.

Run: python -m benchmarks.page pools/topics --out docs/screenshots   (make screenshots)
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from nextquery.service.process import ServiceProcess

QUERY = "bose einstein condensates"
FRAMES = """async () => {
    const { MapView } = await import("/page/map.js");
    const host = document.getElementById("map");
    const view = new MapView(host, () => {});
    await view.load({ session_id: "frames", query: document.getElementById("box").value }, []);
    const drawing = [], between = [];
    let last = 0;
    for (let at = 0; at < 300; at += 1) {
        const now = await new Promise(requestAnimationFrame);
        view.moved = performance.now(); // always moving: every point is placed again
        const began = performance.now();
        view.draw();
        drawing.push(performance.now() - began);
        if (last) between.push(now - last);
        last = now;
    }
    const painted = [];
    for (let count = 0; count < 60; count += 1) { // reading a pixel waits for painting
        const began = performance.now();
        view.draw();
        view.canvas.getContext("2d").getImageData(0, 0, 1, 1);
        painted.push(performance.now() - began);
    }
    const at = (list, share) => list.sort((a, b) => a - b)[Math.floor(share * (list.length - 1))];
    return {
        points: view.points.length,
        draw_ms: [at(drawing, 0.5), at(drawing, 0.99)],
        painted_ms: [at(painted, 0.5), at(painted, 0.99)],
        frame_ms: [at(between, 0.5), at(between, 0.99)],
    };
}"""


def opened(browser: Browser, url: str, **options: Any) -> Page:
    size = {"width": 1440, "height": 900}
    page = browser.new_context(**{"viewport": size, **options}).new_page()
    page.goto(url)
    return page


def explored(page: Page, picks: int) -> None:
    """Play a session of a few steps, and wait until its map is still."""
    page.wait_for_selector(".chip")
    page.locator("#box").fill(QUERY)
    page.locator("#box").press("Enter")
    for at in range(picks + 1):
        page.wait_for_selector(f"#trail li:nth-child({at + 1})")
        page.wait_for_selector(".card")
        page.wait_for_selector("#map[data-points]")
        page.wait_for_timeout(700)
        if at < picks:
            page.locator(".card").nth(at).click()
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        ServiceProcess(args.pool, f"sqlite:///{folder}/events.db") as service,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        light = opened(browser, service.url, color_scheme="light")
        explored(light, 2)
        light.screenshot(path=args.out / "explore-light.png")
        print("map:", light.evaluate(FRAMES))
        dark = opened(browser, service.url, color_scheme="dark")
        explored(dark, 1)
        dark.screenshot(path=args.out / "explore-dark.png")
        dark.goto(f"{service.url}/#learning")
        dark.locator("#play").click()
        dark.wait_for_selector("#play:not([disabled])", timeout=60_000)
        dark.locator("#play").scroll_into_view_if_needed()
        dark.locator(".box.wide").screenshot(path=args.out / "learning-dark.png")
        size = {"width": 390, "height": 844}
        phone = opened(
            browser,
            service.url,
            viewport=size,
            is_mobile=True,
            has_touch=True,
            color_scheme="light",
        )
        explored(phone, 0)
        phone.screenshot(path=args.out / "phone-light.png")
        browser.close()
    for picture in sorted(args.out.glob("*.png")):
        print(f"{picture.stat().st_size / 1000:6.0f} kB  {picture}")


if __name__ == "__main__":
    main()
