// A flame graph by itself.

import { callTree } from "./tree.js";
import { Flame } from "./flame.js";
import { h } from "./dom.js";
import { themeChoice } from "./theme.js";

function main() {
  const { title, calls } = JSON.parse(document.getElementById("data").textContent);
  const heading = h("header", { class: "top" }, h("div", {}, h("p", { class: "brand" }, "kernel-delay"), h("h1", {}, title)), h("div", { class: "controls" }, themeChoice()));
  document.body.append(heading);
  if (!calls) {
    document.body.append(h("main", {}, h("p", {}, "No system call was recorded.")));
  } else {
    const graph = new Flame([]);
    document.body.append(h("main", {}, graph.element));
    graph.show(callTree(calls), "Time in calls");
  }
  document.documentElement.dataset.ready = "yes";
}

main();
