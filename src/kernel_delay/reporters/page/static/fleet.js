// A fleet: who loses more than the others, to what and since when, then what all lose.

import { h } from "./dom.js";
import { showPage } from "./frame.js";
import { Rows } from "./rows.js";

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tables = data.tables.filter(({ rows }) => rows.length).map((table) => new Rows(table).element);
  const about = [h("h1", {}, data.title), h("p", { class: "note" }, data.extent)];
  showPage(about, h("main", {}, outliers(data), tables), "filter");
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
