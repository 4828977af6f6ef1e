"""The style and the script of the job's report; see L{smartgo.spark.report}, which fills them in."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f6f6f3; --card: #fcfcfb; --line: #e3e2dd; --grid: #ebeae6;
  --ink: #14140f; --soft: #57564f; --faint: #8a8981;
  --good: #0a7a3d; --bad: #c0322f; --bad-soft: #fbeceb; --good-soft: #e9f5ee;
  --s0: #2a78d6; --s1: #1baf7a; --s2: #eda100; --s3: #4a3aa7; --s4: #008300; --s5: #e87ba4; --s6: #eb6834;
  --s7: #e34948; --quiet: #b9b8b1;
}
@media (prefers-color-scheme: dark) {
  :root:not([data-theme="light"]) {
    --page: #121211; --card: #1a1a19; --line: #32322f; --grid: #2a2a28;
    --ink: #f4f4f1; --soft: #bdbcb4; --faint: #86857d;
    --good: #45c98a; --bad: #f0716e; --bad-soft: #331c1b; --good-soft: #16291f;
    --s0: #3987e5; --s1: #199e70; --s2: #c98500; --s3: #9085e9; --s4: #2f9a2f; --s5: #d55181; --s6: #d95926;
    --s7: #e66767; --quiet: #5f5e58;
  }
}
:root[data-theme="dark"] {
  color-scheme: dark;
  --page: #121211; --card: #1a1a19; --line: #32322f; --grid: #2a2a28;
  --ink: #f4f4f1; --soft: #bdbcb4; --faint: #86857d;
  --good: #45c98a; --bad: #f0716e; --bad-soft: #331c1b; --good-soft: #16291f;
  --s0: #3987e5; --s1: #199e70; --s2: #c98500; --s3: #9085e9; --s4: #2f9a2f; --s5: #d55181; --s6: #d95926;
  --s7: #e66767; --quiet: #5f5e58;
}
:root[data-theme="light"] { color-scheme: light; }
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 64px; }
header { display: flex; gap: 16px; align-items: flex-start; justify-content: space-between; }
h1 { font-size: 25px; line-height: 1.25; margin: 0 0 4px; letter-spacing: -0.01em; text-wrap: balance; }
h2 { font-size: 17px; margin: 0; letter-spacing: -0.005em; }
.about { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: 13.5px; margin: 2px 0 10px; max-width: 78ch; }
button.theme {
  font: inherit; font-size: 13px; color: var(--soft); background: var(--card); border: 1px solid var(--line);
  border-radius: 7px; padding: 5px 11px; cursor: pointer; white-space: nowrap;
}
button.theme:hover { color: var(--ink); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 12px; margin: 22px 0 14px; }
.tile, section {
  background: var(--card); border: 1px solid var(--line); border-radius: 11px;
}
.tile { padding: 12px 14px 11px; }
.tile .name { color: var(--soft); font-size: 13px; }
.tile .value {
  font-size: 22px; line-height: 1.35; font-weight: 620; letter-spacing: -0.015em;
  font-variant-numeric: tabular-nums;
}
.tile .more { color: var(--faint); font-size: 12.5px; }
.tile.good .value { color: var(--good); }
.tile.bad { background: var(--bad-soft); border-color: color-mix(in srgb, var(--bad) 40%, transparent); }
.tile.bad .value { color: var(--bad); }
section { padding: 17px 20px 14px; margin-top: 14px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 14px; }
.pair section { margin-top: 14px; min-width: 0; }
.pair + section { margin-top: 14px; }
.chart { width: 100%; }
.scroll { overflow-x: auto; margin: 8px -20px 0; padding: 0 20px; }
.scroll.tall { max-height: 460px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { padding: 6px 14px 6px 0; text-align: left; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
th { color: var(--soft); font-weight: 560; position: sticky; top: 0; background: var(--card); }
th[data-sort] { cursor: pointer; }
th[data-sort]:hover { color: var(--ink); }
tbody tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.name { max-width: 360px; overflow: hidden; text-overflow: ellipsis; }
td.words { white-space: normal; overflow-wrap: anywhere; min-width: 200px; }
.kind { color: var(--faint); font-size: 12px; border: 1px solid var(--line); border-radius: 5px; padding: 0 5px; }
.bar { display: inline-block; height: 8px; border-radius: 2px; background: var(--s0); vertical-align: middle; }
.none { color: var(--soft); margin: 8px 0 6px; }
.none.good::before { content: "✓ "; color: var(--good); font-weight: 700; }
footer { color: var(--faint); font-size: 13px; margin-top: 22px; }
code { font: 0.92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media (max-width: 560px) { .pair { grid-template-columns: 1fr; } main { padding: 18px 12px 40px; } }
@media print { button.theme { display: none; } section, .tile { break-inside: avoid; } }
"""

SCRIPT: Final = """
"use strict";
(function () {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);

  function color(role) {
    const name = typeof role === "number" ? "--s" + (role % 8) : "--" + role;
    return getComputedStyle(root).getPropertyValue(name).trim();
  }

  function readable(background) {
    const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(background.slice(at, at + 2), 16) / 255) ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.3 ? "#14140f" : "#ffffff";
  }

  function colored(trace) {
    const made = Object.assign({}, trace);
    const role = made.role;
    const roles = made.roles;
    delete made.role;
    delete made.roles;
    if (roles !== undefined) {
      const filled = roles.map(color);
      made.marker = {colors: filled, line: {width: 1, color: color("card")}};
      made.textfont = {color: filled.map(readable), size: 12};
    } else if (made.type === "scatter") {
      made.line = Object.assign({}, made.line, {color: color(role)});
      made.marker = Object.assign({}, made.marker, {color: color(role)});
    } else {
      made.marker = Object.assign({}, made.marker, {color: color(role)});
      made.textfont = {color: color("soft"), size: 12};
    }
    return made;
  }

  function draw() {
    const axis = {gridcolor: color("grid"), linecolor: color("line"), zeroline: false, automargin: true};
    for (const [id, chart] of Object.entries(charts)) {
      const layout = Object.assign({}, chart.layout, {
        height: chart.height,
        margin: Object.assign({l: 56, r: 12, t: 10, b: 44}, chart.layout.margin),
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: {family: getComputedStyle(document.body).fontFamily, size: 12.5, color: color("soft")},
        hoverlabel: {bgcolor: color("card"), bordercolor: color("line"), font: {color: color("ink")}, namelength: -1},
        xaxis: Object.assign({}, axis, {showgrid: false}, chart.layout.xaxis),
        yaxis: Object.assign({}, axis, chart.layout.yaxis),
      });
      if (chart.layout.yaxis && chart.layout.yaxis.type === "category") {
        layout.xaxis.showgrid = true;
      }
      Plotly.react(id, chart.data.map(colored), layout, {responsive: true, displaylogo: false, displayModeBar: false});
    }
  }

  document.querySelector("button.theme").addEventListener("click", function () {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  for (const head of document.querySelectorAll("th[data-sort]")) {
    head.addEventListener("click", function () {
      const body = head.closest("table").tBodies[0];
      const place = head.cellIndex;
      const down = head.dataset.sort !== "down";
      head.dataset.sort = down ? "down" : "up";
      const key = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent;
      const rows = Array.from(body.rows).sort(function (one, other) {
        const a = key(one), b = key(other);
        const order = isNaN(a) || isNaN(b) ? String(a).localeCompare(String(b)) : a - b;
        return down ? -order : order;
      });
      body.append(...rows);
    });
  }
  draw();
})();
"""
