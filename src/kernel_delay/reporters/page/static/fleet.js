// A fleet: who loses more than the others, to what and since when, then what all lose.

import { h } from "./dom.js";
import { Rows } from "./rows.js";
import { themeChoice } from "./theme.js";

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const print = h("button", { type: "button", onclick: () => window.print() }, "Print");
  document.body.append(
    h(
      "header",
      { class: "top" },
      h("div", {}, h("p", { class: "brand" }, "kernel-delay"), h("h1", {}, data.title), h("p", { class: "note" }, data.extent)),
      h("div", { class: "controls" }, themeChoice(), print),
    ),
    h("main", {}, outliers(data), data.tables.filter(({ rows }) => rows.length).map((table) => new Rows(table).element)),
    h("footer", {}, h("span", {}, h("kbd", {}, "/"), " filter")),
  );
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    document.querySelector("[data-search]")?.focus();
    event.preventDefault();
  });
  document.documentElement.dataset.ready = "yes";
}

function outliers(data) {
  return h(
    "section",
    { id: "named", "aria-labelledby": "named-title" },
    h("h2", { id: "named-title" }, "Who differs"),
    h("p", { class: data.outliers.length ? "note" : "all-well" }, data.summary),
    h("ol", { class: "findings" }, data.outliers.map(named)),
  );
}

function named(outlier) {
  const since = outlier.since ? `, since ${outlier.since} UTC` : "";
  return h(
    "li",
    {},
    h("p", { class: "share" }, h("b", {}, outlier.share), h("span", {}, " %")),
    h(
      "div",
      {},
      h("p", { class: "kind" }, h("b", { class: "name" }, outlier.node), outlier.pod ? h("span", {}, `pod ${outlier.pod}`) : null, h("span", { class: "name" }, outlier.threads), h("span", {}, outlier.cause)),
      h("p", { class: "text" }, `The median is ${outlier.median} %: a score of ${outlier.score}${since}`),
      h("p", { class: "note" }, outlier.evidence),
    ),
  );
}

main();
