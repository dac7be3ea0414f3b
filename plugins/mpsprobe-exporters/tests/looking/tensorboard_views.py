"""Opens a logdir in TensorBoard and visits every view of every worker in a browser: a picture and the text of each.

    python tensorboard_views.py LOGDIR OUT [--chromium PATH] [--polyfill FILE]

Needs ``tensorboard``, ``torch-tb-profiler``, ``playwright`` and a Chromium, so no test runs it. The plugin loads its
charts from a server of Google's: here a stand-in draws what it is given as plain tables, so no network is needed
and the content can be read. Its trace view loads a polyfill too: ``webcomponents.min.js`` 0.7.24 of the npm package
``webcomponents.js``, given with ``--polyfill``. Ends with 1 if a view is empty.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Frame, Page, Route, sync_playwright

PORT = 6123
PLUGIN = f"http://127.0.0.1:{PORT}/data/plugin/pytorch_profiler"
SETTLED, LONGEST = 2.0, 30.0  # seconds
CHARTS = """
(() => {
  class DataTable {
    constructor() { this.columns = []; this.rows = []; }
    addColumn(column) { this.columns.push(column); }
    addRow(row) { this.rows.push(row); }
    addRows(rows) { rows.forEach(row => this.addRow(row)); }
    getNumberOfRows() { return this.rows.length; }
    getNumberOfColumns() { return this.columns.length; }
    getValue(row, column) { return this.rows[row][column]; }
    setProperty() {}
  }
  class Chart {
    constructor(element) { this.element = element; }
    clearChart() { this.element.textContent = ''; }
    getSelection() { return []; }
    setSelection() {}
    draw(data) {
      const table = document.createElement('table');
      table.className = 'stand-in';
      const cell = value => value === null || value === undefined ? '' : String(value.f ?? value.v ?? value);
      const add = (values, kind) => {
        const row = table.insertRow();
        values.forEach(value => {
          const one = document.createElement(kind);
          one.textContent = cell(value).slice(0, 60);
          one.style.border = '1px solid #bbb';
          row.append(one);
        });
      };
      add(data.columns.map(one => typeof one === 'object' ? one.label || one.role || one.type : one), 'th');
      data.rows.slice(0, 12).forEach(row => add(row, 'td'));
      this.element.replaceChildren(table);
    }
  }
  const arrayToDataTable = rows => {
    const found = new DataTable();
    found.columns = rows[0]; found.rows = rows.slice(1);
    return found;
  };
  const kinds = ['ColumnChart', 'ComboChart', 'LineChart', 'PieChart', 'SteppedAreaChart', 'Table', 'Timeline'];
  const visualization = { DataTable, arrayToDataTable, events: { addListener() {}, removeListener() {} } };
  kinds.forEach(kind => { visualization[kind] = class extends Chart {}; });
  window.google = { charts: { load: () => Promise.resolve(), setOnLoadCallback: call => call() }, visualization };
})();
"""
MODEL = """
() => {
  const viewer = document.getElementById('trace-viewer');
  if (!viewer || !viewer.model) return null;
  const processes = viewer.model.getAllProcesses();
  let slices = 0;
  for (const process of processes)
    for (const id in process.threads) slices += process.threads[id].sliceGroup.slices.length;
  return { slices, processes: processes.map(one => one.name || ''), arrows: viewer.model.flowEvents.length };
}
"""


def main() -> int:
    """Visit all views; how many are empty decides the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logdir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--chromium", default=None, help="the browser's program")
    parser.add_argument("--polyfill", type=Path, default=None, help="webcomponents.min.js 0.7.24")
    wanted = parser.parse_args()
    wanted.out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tensorboard.main", "--host", "127.0.0.1", "--port", str(PORT)]
    environment = {**os.environ, "TORCH_PROFILER_START_METHOD": "spawn"}
    with (wanted.out / "tensorboard.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--logdir", str(wanted.logdir)], stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        try:
            empty = _visit(wanted)
        finally:
            server.terminate()
            server.wait()
    for view in empty:
        sys.stdout.write(f"EMPTY: {view}\n")
    return 1 if empty else 0


def _visit(wanted: argparse.Namespace) -> list[str]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-quic"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=wanted.chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1500, "height": 1100})
        page.on("pageerror", lambda error: sys.stdout.write(f"page error: {str(error)[:300]}\n"))
        page.route("**/charts/loader.js", lambda route: route.fulfill(body=CHARTS, content_type="text/javascript"))
        if wanted.polyfill is not None:
            body = wanted.polyfill.read_text(encoding="utf-8")
            page.route("**/webcomponents.min.js", lambda route: _serve(route, body))
        runs = _loaded(page)
        empty = []
        for run in runs:
            for worker, view in _views(page, run):
                frame = _open(page, run, worker, view)
                content = _settled(page, frame, view)
                shown = f"{run}, {worker}, {view}"
                text = frame.inner_text("body")
                name = "".join(one if one.isalnum() else "-" for one in shown)
                page.screenshot(path=wanted.out / f"{name}.png")
                (wanted.out / f"{name}.txt").write_text(text, encoding="utf-8")
                sys.stdout.write(f"{shown}: {content}\n")
                empty += [] if content else [shown]
        browser.close()
    return empty


def _serve(route: Route, body: str) -> None:
    route.fulfill(body=body, content_type="text/javascript")


def _loaded(page: Page) -> list[str]:
    """The runs, once TensorBoard has read them."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            answer = json.loads(page.request.get(f"{PLUGIN}/runs").text())
        except Exception:  # noqa: BLE001 - it is starting
            time.sleep(1)
            continue
        if answer["runs"] and not answer["loading"]:
            return list(answer["runs"])
        time.sleep(1)
    raise SystemExit("TensorBoard has loaded no run")


def _views(page: Page, run: str) -> list[tuple[str, str]]:
    found = []
    views: Any = json.loads(page.request.get(f"{PLUGIN}/views", params={"run": run}).text())
    for view in views:
        name = view if isinstance(view, str) else view["display_name"]
        parameters = {"run": run, "view": name}
        workers = json.loads(page.request.get(f"{PLUGIN}/workers", params=parameters).text())
        found += [(worker, name) for worker in workers]
    return found


def _open(page: Page, run: str, worker: str, view: str) -> Frame:
    """The plugin's frame with that view; the page is loaded anew when it does not come."""
    for _ in range(5):
        try:
            return _chosen(page, (run, view, worker))
        except PlaywrightError as error:
            sys.stdout.write(f"again: {str(error).splitlines()[0]}\n")
    raise SystemExit(f"the view {view} of {worker} does not open")


def _chosen(page: Page, choices: tuple[str, ...]) -> Frame:
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{PORT}/#pytorch_profiler", timeout=20_000)
    page.wait_for_selector("iframe", timeout=20_000)
    frame = _plugin_frame(page)
    for position, choice in enumerate(choices):
        box = frame.locator("[aria-haspopup=listbox]").nth(position)
        box.wait_for(timeout=20_000)
        if box.inner_text(timeout=5_000).strip() != choice:
            box.click(timeout=5_000)
            frame.locator("li[role=option]", has_text=choice).first.click(timeout=5_000)
            page.wait_for_timeout(1000)
    return frame


def _settled(page: Page, frame: Frame, view: str) -> str:
    """The content once there is some and it had time to be drawn, at most ``LONGEST`` seconds later."""
    deadline = time.monotonic() + LONGEST
    while not (found := _content(page, frame, view)) and time.monotonic() < deadline:
        page.wait_for_timeout(1000)
    page.wait_for_timeout(SETTLED * 1000)
    return found and _content(page, frame, view)


def _plugin_frame(page: Page) -> Frame:
    for _ in range(100):
        found = [one for one in page.frames if "pytorch_profiler" in one.url and one != page.main_frame]
        if found:
            return found[0]
        page.wait_for_timeout(200)  # unlike sleep, it lets the browser's messages in
    raise PlaywrightError("the plugin's frame does not come")


def _content(page: Page, frame: Frame, view: str) -> str:
    """What the view holds, counted; empty for nothing."""
    if view == "Trace":
        # The frame's own script keeps its model to itself, so the viewer is asked; a picture shows the rest.
        inner = [one for one in page.frames if "trace_embedding" in one.url and not one.is_detached()]
        found: Any = inner[-1].evaluate(MODEL) if inner else None
        return json.dumps(found) if found and found["slices"] else ""
    tables = frame.locator("table.stand-in, .ant-table table, .ant-table-tbody").all()
    if view == "Memory" and "No Data" in frame.inner_text("body") and not frame.locator("table.stand-in").count():
        return ""
    rows = [table.locator("tr").count() for table in tables]
    return f"{len(rows)} tables and charts with {sum(rows)} rows" if sum(rows) > len(rows) else ""


if __name__ == "__main__":
    sys.exit(main())
