// A chart over time of a few lines, each with its colour and dashes, by uPlot.

import { color, h, redraw } from "./dom.js";
import { fixed } from "./format.js";

const HEIGHT = 240;
const FEW_POINTS = 100;
const UNITS = { us: " µs", ms: " ms", "a second": "/s", "": "" };

export class Chart {
  constructor(chart) {
    this.chart = chart;
    this.unit = UNITS[chart.unit];
    this.plot = h("div", { class: "plot" });
    this.element = h(
      "section",
      { id: chart.id, "aria-labelledby": `${chart.id}-title` },
      h("div", { class: "heading" }, h("h2", { id: `${chart.id}-title` }, chart.title, h("small", {}, chart.of))),
      this.plot,
    );
    redraw(this.plot, () => this.draw());
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const at = this.chart.at_ns.map((ns) => ns / 1e9);
    const axis = { stroke: color("faint"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "11px system-ui, sans-serif" };
    this.drawn?.destroy();
    this.drawn = new uPlot(
      {
        width,
        height: HEIGHT,
        cursor: { drag: { x: true, y: false } },
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((each) => `${each} s`) },
          { ...axis, size: 84, values: (_, ticks) => ticks.map((each) => `${each.toLocaleString("en-US")}${this.unit}`) },
        ],
        series: [{ label: "at", value: (_, value) => (value === null ? "–" : `${fixed(value, 3)} s`) }, ...this.chart.lines.map((line, rank) => this.line(line, rank, at))],
      },
      [at, ...this.chart.lines.map((line) => line.values)],
      this.plot,
    );
  }

  // Where others have a point and this has none, its line goes on.
  line({ name }, rank, at) {
    return {
      label: name,
      stroke: color(`l-${rank}`),
      width: 2,
      dash: rank % 2 ? [6, 3] : undefined,
      spanGaps: true,
      points: { show: at.length < FEW_POINTS, size: 6 },
      value: (_, value) => (value === null ? "–" : `${fixed(value, this.unit ? 1 : 0)}${this.unit}`),
    };
  }
}
