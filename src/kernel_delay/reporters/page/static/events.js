// What Open vSwitch's monitors saw: what must be known of it, charts over time, the summary, and
// what was longest or last.

import { about, capital, foldedLines } from "./head.js";
import { Chart } from "./chart.js";
import { h, scroller } from "./dom.js";
import { showPage } from "./frame.js";
import { Rows } from "./rows.js";

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const head = [h("h1", {}, data.title), h("p", { class: "note" }, data.subject)];
  const main = h(
    "main",
    { class: "events" },
    notes(data.notes),
    data.charts.map((chart) => new Chart(chart).element),
    summary(data.summary),
    data.tables.map((table) => new Rows(table).element),
    data.about.length ? about(data) : null,
  );
  showPage(head, main, "filter");
}

function notes(lines) {
  if (!lines.length) return null;
  const title = "What to know of this measurement";
  return h(
    "aside",
    { class: "losses", "aria-label": title },
    h("h2", {}, title),
    foldedLines(lines.map(capital)),
  );
}

function summary(text) {
  return h(
    "section",
    { id: "summary", "aria-labelledby": "summary-title" },
    h("div", { class: "heading" }, h("h2", { id: "summary-title" }, "Summary")),
    scroller("Summary", h("pre", { class: "summary" }, text)),
  );
}

main();
