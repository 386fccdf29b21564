// The frame of a page: what it is of on top, its contents, and / for what is filtered.

import { h } from "./dom.js";
import { themeChoice } from "./theme.js";

// `about` are the nodes beside the name of the tool; `main` is of h(), and `filtered` says what / is for.
export function showPage(about, main, filtered) {
  const print = h("button", { type: "button", onclick: () => window.print() }, "Print");
  document.body.append(
    h(
      "header",
      { class: "top" },
      h("div", {}, h("p", { class: "brand" }, "kernel-delay"), about),
      h("div", { class: "controls" }, themeChoice(), print),
    ),
    main,
    h("footer", {}, h("span", {}, h("kbd", {}, "/"), ` ${filtered}`)),
  );
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    document.querySelector("[data-search]")?.focus();
    event.preventDefault();
  });
  document.documentElement.dataset.ready = "yes";
}
