// The wait chains of a thread: a row of boxes for each hop, as wide as it was waited for. Below each
// box are those that it waited for itself; the last ones have the colours of what the roots did.

import { count, exact, percent, time, unitOf } from "./format.js";
import { h } from "./dom.js";

const FEW_THREADS = 6;
const FEW_PARTS = 6;

// Those of the threads that are shown, the longest waits first.
export class Chains {
  constructor() {
    this.body = h("div");
    this.element = h(
      "section",
      { id: "chains", "aria-labelledby": "chains-title" },
      h("h2", { id: "chains-title" }, "Wait chains", h("small", {}, "each box waited for those below it; at the bottom is what the roots did")),
      this.body,
    );
  }

  show(threads) {
    const waits = threads.filter(({ chain }) => chain.length).map((thread) => ({ thread, ns: sum(thread.chain) }));
    waits.sort((a, b) => b.ns - a.ns);
    this.element.hidden = !waits.length;
    this.body.replaceChildren(...waits.slice(0, FEW_THREADS).map(drawn), ...folded(waits.slice(FEW_THREADS), "more threads", (rest) => rest.map(drawn)));
  }
}

function sum(parts) {
  return parts.reduce((ns, part) => ns + part.ns, 0);
}

// What is drawn if asked for, and on paper.
function folded(rest, what, draw) {
  if (!rest.length) return [];
  const element = h("details", {}, h("summary", {}, `${count(rest.length)} ${what}`));
  element.addEventListener("toggle", () => element.append(...draw(rest)), { once: true });
  addEventListener("beforeprint", () => (element.open = true));
  return [element];
}

function drawn({ thread, ns: whole }) {
  const times = unitOf(thread.chain.map((part) => part.ns));
  const name = `${thread.name} (${thread.tid})`;
  const lines = (parts) => h("ol", { class: "chain-parts" }, parts.map((part) => line(part, whole, times)));
  const waited = `${name} waited ${time(whole)}`;
  return h(
    "div",
    {},
    h("h3", {}, waited, h("small", { title: exact(whole) }, thread.whole_ns ? `${percent(whole, thread.whole_ns)} % of its time` : "")),
    h("div", { class: "chain", role: "img", "aria-label": `${waited}: the chains are listed below` }, box(name, thread.chain, 0, whole)),
    lines(thread.chain.slice(0, FEW_PARTS)),
    folded(thread.chain.slice(FEW_PARTS), "shorter", (rest) => [lines(rest)]),
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
