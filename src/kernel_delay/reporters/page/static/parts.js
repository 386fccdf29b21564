// The parts of a thread's account, each with the state that it is drawn as. The order is that of
// `parts` in the data; page.css has a colour for each state.

import { count, exact, percent } from "./format.js";
import { h } from "./dom.js";

const STATES = {
  user: ["user"],
  kernel: ["kernel, syscalls", "kernel, worker", "kernel, page faults"],
  guest: ["guest"],
  tool: ["kernel-delay"],
  irq: ["hard irq", "soft irq"],
  ready: ["ready, woken", "ready, preempted"],
  throttled: ["throttled"],
  frozen: ["frozen"],
  stopped: ["stopped"],
  blocked: ["blocked"],
  absent: ["absent"],
  unaccounted: ["unaccounted"],
};

export const STATE_NAMES = Object.keys(STATES);

const LABELS = {
  irq: "interrupts",
  ready: "ready, no CPU",
  tool: "kernel-delay",
};

export function label(state) {
  return LABELS[state] ?? state;
}

export function stateOf(part) {
  return STATE_NAMES.find((state) => STATES[state].includes(part));
}

// Sums by state of a row of times: of a thread, or of all of them.
export function byState(parts, times) {
  const sums = Object.fromEntries(STATE_NAMES.map((state) => [state, 0]));
  if (times) parts.forEach((part, place) => (sums[stateOf(part)] += times[place]));
  return sums;
}

// A bar of shares; what it shows stands in its title, for those who don't see it.
export function bar(sums, names = STATE_NAMES) {
  const whole = names.reduce((sum, name) => sum + sums[name], 0);
  const shown = names.filter((name) => sums[name] > 0);
  const said = shown.map((name) => `${label(name)} ${percent(sums[name], whole)} %`).join(", ");
  return h(
    "div",
    { class: "bar", role: "img", "aria-label": said || "nothing" },
    shown.map((name) => {
      const piece = h("i", { class: `s-${name}`, title: `${label(name)}: ${exact(sums[name])}, ${percent(sums[name], whole)} %` });
      piece.style.flexGrow = sums[name] / whole;
      return piece;
    }),
  );
}

export function swatch(state) {
  return h("i", { class: `swatch s-${state}`, "aria-hidden": "true" });
}

export function legend(states) {
  return h(
    "ul",
    { class: "legend", "aria-label": "colours" },
    states.map((state) => h("li", {}, swatch(state), label(state))),
  );
}

// How many intervals had which length, by powers of two, as a small picture.
export function histogram(counts, title) {
  const first = counts.findIndex((each) => each > 0);
  if (first < 0) return null;
  const shown = counts.slice(first);
  const highest = Math.max(...shown);
  return h(
    "div",
    { class: "histogram", role: "img", "aria-label": `${title}: ${shown.length} powers of two` },
    shown.map((each, place) => {
      const low = 2 ** (first + place);
      const piece = h("i", { title: `${exact(first + place ? low : 0)} to ${exact(2 * low)}: ${count(each)}` });
      piece.style.height = each ? `${Math.max(8, (100 * each) / highest)}%` : "0";
      return piece;
    }),
  );
}
