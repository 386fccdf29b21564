// The frame of a page: what it is of on top, its contents, and / for what is filtered. Its colours are
// light or dark: as the system says, until the reader does; on paper light.

import { h } from "./dom.js";

const SCHEMES = { auto: "light dark", light: "light", dark: "dark" };

export function themeChoice() {
  const apply = (scheme) => {
    document.documentElement.style.colorScheme = scheme;
    document.dispatchEvent(new Event("colorschemechange"));
  };
  const choice = h(
    "select",
    { "aria-label": "Colours", onchange: () => apply(SCHEMES[choice.value]) },
    Object.keys(SCHEMES).map((name) => h("option", { value: name }, name === "auto" ? "System colours" : name === "light" ? "Light" : "Dark")),
  );
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => apply(SCHEMES[choice.value]));
  return choice;
}

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
