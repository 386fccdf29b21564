// A flame graph by itself.

import { callModes } from "./tree.js";
import { Flame } from "./flame.js";
import { h } from "./dom.js";
import { themeChoice } from "./frame.js";

function main() {
  const { title, calls } = JSON.parse(document.getElementById("data").textContent);
  const heading = h("header", { class: "top" }, h("div", {}, h("p", { class: "brand" }, "kernel-delay"), h("h1", {}, title)), h("div", { class: "controls" }, themeChoice()));
  document.body.append(heading);
  if (!calls) {
    document.body.append(h("main", {}, h("p", {}, "No system call was recorded.")));
  } else {
    const modes = callModes(calls);
    const choice = h(
      "select",
      { "aria-label": "What the widths are", onchange: () => draw() },
      modes.map(({ name }, place) => h("option", { value: place }, name)),
    );
    const graph = new Flame([choice]);
    const draw = () => {
      const { name, tree, note } = modes[choice.value];
      graph.show(tree(null), name, note);
    };
    document.body.append(h("main", {}, graph.element));
    draw();
  }
  document.documentElement.dataset.ready = "yes";
}

main();
