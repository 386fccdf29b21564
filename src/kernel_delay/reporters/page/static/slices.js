// Everything that threads did, on the axis of Timeline: of each thread its calls, below these its
// states, and at the bottom the interrupts that came.

import { color, h } from "./dom.js";
import { exact, percent } from "./format.js";
import { label, STATE_NAMES } from "./parts.js";
import { Timeline } from "./timeline.js";

const ROW = 38;
const TRACKS = [
  { top: 3, height: 14 },
  { top: 18, height: 11 },
  { top: 30, height: 5 },
  { top: 30, height: 5 },
];
const [MODES, STATES, SOFT_IRQS, HARD_IRQS] = TRACKS.keys();
const COLORS = 7;
const MOST_ROWS = 400;

export class Slices extends Timeline {
  constructor({ timeline, samples, until_ns }) {
    super({ calls: { ...timeline, events: timeline.slices }, samples, until_ns });
    this.canvas.setAttribute(
      "aria-label",
      "What threads did in time. Left and right arrows move, plus and minus zoom, 0 shows all.",
    );
  }

  // Rows of tracks, those that were busy longest first; within a track no two overlap.
  index() {
    const { events, threads, whats } = this.calls;
    const rows = threads.map((thread) => ({ thread, ns: 0, tracks: TRACKS.map(() => []) }));
    const ns = whats.map(() => 0);
    for (let i = 0; i < events.since_ns.length; i++) {
      const [, track, part] = whats[events.whats[i]];
      const row = rows[events.threads[i]];
      row.tracks[track].push(i);
      if (track === STATES && !["blocked", "absent"].includes(part)) row.ns += events.lengths_ns[i];
      ns[events.whats[i]] += events.lengths_ns[i];
    }
    rows.sort((a, b) => b.ns - a.ns);
    this.rows = rows.slice(0, MOST_ROWS);
    this.hidden = rows.length - this.rows.length;
    const calls = [...whats.keys()].filter((what) => whats[what][1] === MODES && !whats[what][2]);
    calls.sort((a, b) => ns[b] - ns[a]);
    this.colorOf = new Map(calls.slice(0, COLORS).map((what, rank) => [what, rank]));
    this.others = calls.length > COLORS;
  }

  legend() {
    const { whats } = this.calls;
    const calls = [...this.colorOf].map(([what, rank]) =>
      h("li", {}, h("i", { class: `swatch c-${rank}` }), whats[what][0]),
    );
    if (this.others) calls.push(h("li", {}, h("i", { class: "swatch c-other" }), "other calls"));
    const parts = new Set(whats.map(([, , part]) => part));
    const states = STATE_NAMES.filter((state) => parts.has(state)).map((state) =>
      h("li", {}, h("i", { class: `swatch s-${state}` }), state === "user" ? "running" : label(state)),
    );
    return h("ul", { class: "legend" }, calls, states);
  }

  get rowHeight() {
    return ROW;
  }

  get what() {
    return "slices";
  }

  nameOf(event) {
    return this.calls.whats[this.calls.events.whats[event]][0];
  }

  draw(drag = null) {
    this.stateColors = Object.fromEntries(STATE_NAMES.map((state) => [state, color(`s-${state}`)]));
    super.draw(drag);
  }

  fill(event, colors) {
    const what = this.calls.events.whats[event];
    const [, track, part] = this.calls.whats[what];
    // A handler within a soft IRQ is drawn on it.
    if (track === HARD_IRQS && part === "irq") return colors.ink;
    return this.stateColors[part] ?? colors.calls[this.colorOf.get(what)] ?? colors.other;
  }

  drawRow(context, row, top, colors) {
    row.tracks.forEach((events, track) =>
      this.drawBars(context, events, top + TRACKS[track].top, TRACKS[track].height, colors),
    );
  }

  // How much of all threads' time was on a CPU or waiting for one, in each part of the whole.
  density() {
    const { whats } = this.calls;
    return super.density((event) => {
      const [, track, part] = whats[this.calls.events.whats[event]];
      return track === STATES && !["blocked", "absent"].includes(part);
    });
  }

  track(row, y) {
    if (y < TRACKS[STATES].top) return row.tracks[MODES];
    if (y < TRACKS[SOFT_IRQS].top) return row.tracks[STATES];
    return [...row.tracks[SOFT_IRQS], ...row.tracks[HARD_IRQS]].sort((a, b) => a - b);
  }

  remark(event) {
    const cpu = this.calls.events.cpus[event];
    return cpu < 0 ? "" : `, CPU ${cpu}`;
  }

  details(found) {
    const { events, threads } = this.calls;
    const [tid, name] = threads[events.threads[found]];
    const length = events.lengths_ns[found];
    const facts = [
      ["What", this.nameOf(found)],
      ["Thread", `${name} (${tid})`],
      ["Began at", exact(events.since_ns[found])],
      ["Took", `${exact(length)}, ${percent(length, this.end, 3)} % of what is shown here`],
    ];
    if (events.cpus[found] >= 0) facts.push(["CPU", String(events.cpus[found])]);
    return [this.facts(facts)];
  }
}
