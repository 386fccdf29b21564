// What changed from sample to sample: uPlot's lines, one for each of the threads with most of it.

import { bar, byState, label } from "./parts.js";
import { color, h, redraw } from "./dom.js";
import { fixed } from "./format.js";

const LINES = 7;
const HEIGHT = 240;
const FEW_POINTS = 100;
// Of a window: what is that short between two of them is no gap that one could see.
const LEAST_GAP = 0.02;

const CHOICES = [
  ["lost", "Lost", (row) => row.lost_ns],
  ...["user", "kernel", "irq", "ready", "blocked", "stopped", "throttled"].map((state) => [
    state,
    label(state),
    (row, parts) => byState(parts, row.time_ns)[state],
  ]),
];

export class Series {
  // `select` shows a sample, for the bars, which stand with the threads; `selectAndShow` is the chart's.
  constructor(data, select, selectAndShow) {
    this.data = data;
    this.select = select;
    this.selectAndShow = selectAndShow;
    this.bars = this.sampleBars();
    const choices = CHOICES.filter(([, , ns]) => this.threads(ns).length);
    this.choice = h(
      "select",
      { "aria-label": "What is drawn", onchange: () => this.draw() },
      choices.map(([key, name]) => h("option", { value: key }, name)),
    );
    this.plot = h("div", { class: "plot" });
    this.element = h(
      "section",
      { id: "series", "aria-labelledby": "series-title" },
      h("div", { class: "heading" }, h("h2", { id: "series-title" }, "Over time"), h("label", {}, "Share of the window: ", this.choice)),
      this.plot,
    );
    redraw(this.plot, () => this.draw());
  }

  // The threads that have most of it over all samples, and their shares in each.
  threads(ns) {
    const found = new Map();
    this.data.samples.forEach((sample, place) => {
      for (const row of sample.threads ?? []) {
        if (!row.time_ns) continue;
        const key = `${row.name} ${row.tid}`;
        if (!found.has(key)) found.set(key, { name: key, sum: 0, shares: this.data.samples.map(() => null) });
        const value = ns(row, this.data.parts);
        found.get(key).sum += value;
        found.get(key).shares[place] = row.whole_ns ? (100 * value) / row.whole_ns : 0;
      }
    });
    return [...found.values()].filter((each) => each.sum > 0).sort((a, b) => b.sum - a.sum).slice(0, LINES);
  }

  // A bar a sample, of all threads together; each selects its sample.
  sampleBars() {
    const drawn = this.data.samples.slice(0, 400).map((sample, place) => {
      const sums = byState(this.data.parts, sample.time_ns.length ? sample.time_ns : null);
      return h(
        "button",
        {
          type: "button",
          class: "sample",
          title: [`Sample ${place + 1}`, ...sample.remarks].join("\n"),
          "aria-label": `Show sample ${place + 1}`,
          onclick: () => this.select(place),
        },
        bar(sums),
        h("span", {}, String(place + 1), sample.remarks.length ? h("b", { class: "marked" }, " !") : null),
      );
    });
    this.buttons = drawn;
    return h("div", { class: "samples", role: "group", "aria-label": "Samples, all threads together" }, drawn);
  }

  selected(place) {
    this.buttons.forEach((button, each) => button.setAttribute("aria-pressed", String(each === place)));
  }

  // A share is of the whole window: its line begins and ends with that. Between windows nothing was
  // measured, and no line goes there. `places` are those of the samples at these times; `single` are
  // the times that get a point: of few samples each, else those that would not be seen.
  times() {
    const { samples } = this.data;
    const [at, places, single] = [[], [], []];
    let apart = true;
    samples.forEach(({ since_ns: since, duration_ns: duration }, place) => {
      const end = since + duration;
      const next = samples[place + 1]?.since_ns ?? Infinity;
      const gap = next - end > LEAST_GAP * duration;
      if (samples.length < FEW_POINTS || (apart && gap)) single.push(at.length);
      at.push(since / 1e9, end / 1e9);
      places.push(place, place);
      if (gap && next < Infinity) {
        at.push((end + next) / 2e9);
        places.push(null);
      }
      apart = gap;
    });
    return { at, places, single };
  }

  draw() {
    const width = this.plot.clientWidth;
    const choice = CHOICES.find(([key]) => key === this.choice.value);
    if (!width || !choice) return;
    const lines = this.threads(choice[2]);
    const { at, places, single } = this.times();
    const axis = { stroke: color("faint"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "11px system-ui, sans-serif" };
    this.drawn?.destroy();
    this.drawn = new uPlot(
      {
        width,
        height: HEIGHT,
        cursor: { drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((each) => `${each} s`) },
          { ...axis, size: 56, values: (_, ticks) => ticks.map((each) => `${each} %`) },
        ],
        series: [
          { label: "at", value: (_, value) => (value === null ? "–" : `${fixed(value, 3)} s`) },
          ...lines.map((line, rank) => ({
            label: line.name,
            stroke: color(`l-${rank}`),
            width: 2,
            dash: rank % 2 ? [6, 3] : undefined,
            points: { show: true, size: 6, filter: () => single },
            value: (_, value) => (value === null ? "–" : `${fixed(value, 1)} %`),
          })),
        ],
      },
      [at, ...lines.map(({ shares }) => places.map((place) => (place === null ? null : shares[place])))],
      this.plot,
    );
    this.drawn.over.addEventListener("click", () => {
      const place = places[this.drawn.cursor.idx];
      if (place !== null && place !== undefined) this.selectAndShow(place);
    });
  }
}
