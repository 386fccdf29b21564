// The wait chains of a thread: a row of boxes for each hop, as wide as it was waited for. Below each
// box are those that it waited for itself; the last ones have the colours of what the roots did.

import { exact, percent, unitOf } from "./format.js";
import { h } from "./dom.js";

export function drawn(thread) {
  const whole = thread.chain.reduce((sum, part) => sum + part.ns, 0);
  const times = unitOf(thread.chain.map((part) => part.ns));
  const name = `${thread.name} (${thread.tid})`;
  return h(
    "div",
    {},
    h("div", { class: "chain", role: "img", "aria-label": `${name} waited ${exact(whole)}` }, box(name, thread.chain, 0, whole)),
    h("ol", { class: "chain-parts" }, thread.chain.map((part) => line(part, whole, times))),
  );
}

function line({ way, state, did, ns }, whole, { unit, write }) {
  return h(
    "li",
    {},
    h("i", { class: `swatch s-${state}`, "aria-hidden": "true" }),
    way.length ? `${way.join(" → ")}: ${did}` : did,
    h("small", { title: exact(ns) }, ` ${percent(ns, whole)} %, ${write(ns)} ${unit}`),
  );
}

// Whoever is waited for at this hop, with all parts that lead there.
function box(name, parts, hop, whole) {
  const ns = parts.reduce((sum, part) => sum + part.ns, 0);
  const further = Map.groupBy(parts, ({ way }) => way[hop]);
  return sized(
    ns,
    h(
      "div",
      { title: `${name}: ${exact(ns)}, ${percent(ns, whole)} %` },
      h("span", {}, name),
      h("div", { class: "hop" }, [...further].map(([next, those]) => (next === undefined ? those.map((part) => root(part, whole)) : box(next, those, hop + 1, whole)))),
    ),
  );
}

function root({ state, did, ns }, whole) {
  const title = `${did}: ${exact(ns)}, ${percent(ns, whole)} %`;
  return sized(ns, h("div", { class: `root s-${state}`, title }, h("span", {}, did)));
}

function sized(ns, element) {
  element.style.flexGrow = ns;
  return element;
}
