// A part of time on a canvas, which the reader moves and zooms: by mouse, wheel and keys, and in an
// overview of the whole. Who extends it draws, and says what is at a place: draw(), hover(), pick()
// and at().

import { h } from "./dom.js";

export const AXIS = 24;
const SHORTEST_NS = 50;

export class TimeView {
  constructor({ samples, until_ns }) {
    this.samples = samples;
    this.end = until_ns;
    this.from = 0;
    this.to = this.end;
    this.overview = h("canvas", { class: "overview", "aria-hidden": "true" });
    this.canvas = h("canvas", {
      class: "calls",
      tabindex: "0",
      role: "img",
      "aria-label": "Calls in time. Left and right arrows move, plus and minus zoom, 0 shows all.",
    });
    this.tip = h("div", { class: "tip", hidden: true });
  }

  listen() {
    const { canvas, overview } = this;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { from: event.offsetX, to: event.offsetX };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        drag.to = event.offsetX;
        this.draw(drag);
      } else this.hover(event);
    });
    canvas.addEventListener("pointerup", (event) => {
      const { from, to } = drag ?? { from: 0, to: 0 };
      drag = null;
      if (Math.abs(to - from) < 4) this.pick(this.at(event));
      else this.view(this.timeAt(Math.min(from, to)), this.timeAt(Math.max(from, to)));
    });
    canvas.addEventListener("pointercancel", () => {
      drag = null;
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("dblclick", () => this.view(0, this.end));
    canvas.addEventListener(
      "wheel",
      (event) => {
        // The page scrolls, unless the calls are selected.
        if (event.ctrlKey || event.metaKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event.offsetX));
        else if (event.shiftKey) this.move((event.deltaY || event.deltaX) / 500);
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
    overview.addEventListener("pointerdown", (event) => {
      const middle = (event.offsetX / overview.clientWidth) * this.end;
      const half = (this.to - this.from) / 2;
      this.view(middle - half, middle + half);
    });
  }

  key(event) {
    const act = {
      ArrowLeft: () => this.move(-0.2),
      ArrowRight: () => this.move(0.2),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.view(0, this.end),
      Home: () => this.view(0, this.end),
      Escape: () => this.pick(null),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    act();
    event.preventDefault();
  }

  move(share) {
    const length = this.to - this.from;
    this.view(this.from + share * length, this.to + share * length);
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.view(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  view(from, to) {
    const length = Math.min(Math.max(to - from, SHORTEST_NS), this.end);
    this.from = Math.min(Math.max(from, 0), this.end - length);
    this.to = this.from + length;
    this.draw();
  }

  get width() {
    return this.canvas.clientWidth;
  }

  timeAt(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  xOf(ns) {
    return ((ns - this.from) / (this.to - this.from)) * this.width;
  }

  prepare(canvas, height) {
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    return context;
  }

  // What lies between two windows was not measured.
  drawGaps(context, height, colors) {
    context.fillStyle = colors.shade;
    let before = 0;
    for (const sample of this.samples) {
      const [from, to] = [this.xOf(before), this.xOf(sample.since_ns)];
      if (to > from) context.fillRect(from, AXIS, to - from, height - AXIS);
      before = sample.since_ns + sample.duration_ns;
    }
  }

  drawAxis(context, height, colors) {
    const length = this.to - this.from;
    const step = niceStep(length / Math.max(2, this.width / 110));
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.xOf(at)) + 0.5;
      context.strokeStyle = colors.line;
      context.beginPath();
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = colors.faint;
      const text = tick(at, step);
      if (x + context.measureText(text).width + 4 < this.width) context.fillText(text, x + 3, AXIS / 2 - 2);
    }
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
}

// A time on the axis, with no more digits than distinguish it from its neighbours.
function tick(ns, step) {
  const [unit, size] = step >= 1e8 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : step >= 100 ? ["µs", 1e3] : ["ns", 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return `${(ns / size).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}
