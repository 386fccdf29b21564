// Light or dark: as the system says, until the reader does; on paper light.

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
