// Single calls as bars in time, a row for each thread, on a canvas: there may be 200,000.

import { color, h, redraw } from "./dom.js";
import { count, exact, percent, returned, time } from "./format.js";
import { AXIS, TimeView } from "./time_view.js";

const ROW = 20;
const BAR = 14;
const OVERVIEW = 34;
const BINS = 600;
const COLORS = 7;
const MOST_ROWS = 400;

export class Timeline extends TimeView {
  constructor(data) {
    super(data);
    this.calls = data.calls;
    this.chosen = null;
    this.index();
    this.names = h("div", { class: "rows" });
    this.status = h("p", { class: "status", "aria-live": "polite" });
    this.picked = h("div", { class: "picked" });
    const button = (text, label, act) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.element = h(
      "div",
      { class: "timeline" },
      h(
        "div",
        { class: "tools" },
        this.legend(),
        button("−", "Zoom out", () => this.zoom(2)),
        button("+", "Zoom in", () => this.zoom(0.5)),
        button("Show all", "Show all", () => this.view(0, this.end)),
      ),
      this.overview,
      h("div", { class: "frame" }, this.names, h("div", { class: "area" }, this.canvas, this.tip)),
      this.status,
      this.picked,
    );
    this.listen();
    redraw(this.canvas.parentElement, () => this.draw());
  }

  // Rows of events, those in most calls' time first; within a row no two overlap.
  index() {
    const { events } = this.calls;
    const rows = this.calls.threads.map((thread) => ({ thread, ns: 0, events: [] }));
    const callNs = this.calls.calls.map(() => 0);
    const { paths } = this.calls;
    paths.ns.forEach((ns, place) => {
      rows[paths.threads[place]].ns += ns;
      callNs[paths.calls[place]] += ns;
    });
    for (let i = 0; i < events.since_ns.length; i++) rows[events.threads[i]].events.push(i);
    rows.sort((a, b) => b.ns - a.ns);
    this.rows = rows.slice(0, MOST_ROWS);
    this.hidden = rows.length - this.rows.length;
    const byTime = callNs.map((ns, place) => ({ ns, place })).sort((a, b) => b.ns - a.ns);
    this.colorOf = new Map(byTime.slice(0, COLORS).map(({ place }, rank) => [place, rank]));
  }

  legend() {
    const items = [...this.colorOf].map(([call, rank]) =>
      h("li", {}, h("i", { class: `swatch c-${rank}` }), this.calls.calls[call]),
    );
    if (this.calls.calls.length > items.length) items.push(h("li", {}, h("i", { class: "swatch c-other" }), "others"));
    return h("ul", { class: "legend" }, items);
  }

  get rowHeight() {
    return ROW;
  }

  draw(drag = null) {
    if (!this.canvas.parentElement.clientWidth) return;
    const colors = {
      ink: color("ink"),
      faint: color("faint"),
      line: color("line"),
      accent: color("accent"),
      shade: color("shade"),
      other: color("c-other"),
      calls: [...Array(COLORS).keys()].map((rank) => color(`c-${rank}`)),
    };
    this.names.replaceChildren(
      ...this.rows.map(({ thread: [tid, name] }) =>
        h("div", { title: `${name} ${tid}` }, name, h("span", { class: "tid" }, tid)),
      ),
    );
    const height = AXIS + this.rows.length * this.rowHeight;
    const context = this.prepare(this.canvas, height);
    this.drawGaps(context, height, colors);
    this.drawAxis(context, height, colors);
    this.rows.forEach((row, place) => this.drawRow(context, row, AXIS + place * this.rowHeight, colors));
    if (drag) {
      context.fillStyle = colors.accent;
      context.globalAlpha = 0.2;
      context.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height);
      context.globalAlpha = 1;
    }
    this.drawOverview(colors);
    const shown = `${time(this.from)} to ${time(this.to)} of ${time(this.end)}`;
    const left = this.calls.events.left_out;
    this.status.textContent = [
      shown,
      left ? `${count(left)} shorter ${this.what} are not drawn` : null,
      this.hidden ? `${count(this.hidden)} threads with less are not drawn` : null,
    ]
      .filter(Boolean)
      .join("; ");
  }

  drawRow(context, row, top, colors) {
    this.drawBars(context, row.events, top + (ROW - BAR) / 2, BAR, colors);
  }

  // What the events are called, of which some may not be drawn.
  get what() {
    return "calls";
  }

  nameOf(event) {
    return this.calls.calls[this.calls.events.calls[event]];
  }

  fill(event, colors) {
    return colors.calls[this.colorOf.get(this.calls.events.calls[event])] ?? colors.other;
  }

  drawBars(context, events, y, height, colors) {
    const { since_ns, lengths_ns } = this.calls.events;
    const scale = this.width / (this.to - this.from);
    // Of the calls within one pixel the longest is drawn.
    let drawn = -1;
    for (let i = this.firstIn(events, this.from); i < events.length; i++) {
      const event = events[i];
      const since = since_ns[event];
      if (since >= this.to) break;
      const left = Math.max(0, (since - this.from) * scale);
      const right = Math.min(this.width, (since + lengths_ns[event] - this.from) * scale);
      if (right <= drawn) continue;
      const wide = Math.max(right - left, 1);
      context.fillStyle = this.fill(event, colors);
      context.fillRect(left, y, wide > 3 ? wide - 0.5 : wide, height);
      drawn = Math.floor(Math.max(right, left + 1));
      if (wide > 34 && height >= BAR) this.drawName(context, this.nameOf(event), left, y, wide);
      if (event === this.chosen) {
        context.strokeStyle = colors.ink;
        context.lineWidth = 2;
        context.strokeRect(left, y, wide, height);
        context.lineWidth = 1;
      }
    }
  }

  drawName(context, name, left, y, wide) {
    const room = Math.floor((wide - 8) / 6);
    const short = name.length <= room ? name : room > 3 ? `${name.slice(0, room - 1)}…` : "";
    context.fillStyle = "#000";
    context.fillText(short, left + 4, y + BAR / 2 + 0.5);
  }

  drawOverview(colors) {
    const context = this.prepare(this.overview, OVERVIEW);
    const width = this.overview.clientWidth;
    const bins = (this.bins ??= this.density());
    const highest = Math.max(...bins, 1);
    context.fillStyle = colors.faint;
    bins.forEach((ns, place) => {
      const tall = (ns / highest) * (OVERVIEW - 4);
      context.fillRect((place * width) / BINS, OVERVIEW - tall, width / BINS, tall);
    });
    const [left, right] = [this.from, this.to].map((ns) => (ns / this.end) * width);
    context.fillStyle = colors.accent;
    context.globalAlpha = 0.18;
    context.fillRect(left, 0, Math.max(right - left, 2), OVERVIEW);
    context.globalAlpha = 1;
    context.strokeStyle = colors.accent;
    context.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 2), OVERVIEW - 1);
  }

  // How much of all threads' time was in calls, in each part of the whole.
  density(counts = () => true) {
    const bins = new Array(BINS).fill(0);
    const { since_ns, lengths_ns } = this.calls.events;
    const size = this.end / BINS;
    for (let i = 0; i < since_ns.length; i++) {
      if (!counts(i)) continue;
      const [from, to] = [since_ns[i], since_ns[i] + lengths_ns[i]];
      const last = Math.min(BINS - 1, Math.floor(to / size));
      for (let bin = Math.floor(from / size); bin <= last; bin++)
        bins[bin] += Math.min(to, (bin + 1) * size) - Math.max(from, bin * size);
    }
    return bins;
  }

  // The first of a track's events that ends after a time.
  firstIn(events, ns) {
    const { since_ns, lengths_ns } = this.calls.events;
    let [low, high] = [0, events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const event = events[middle];
      if (since_ns[event] + lengths_ns[event] < ns) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The event under the pointer, or within two pixels of it.
  at(event) {
    const row = this.rows[Math.floor((event.offsetY - AXIS) / this.rowHeight)];
    if (!row || event.offsetY < AXIS) return null;
    const events = this.track(row, (event.offsetY - AXIS) % this.rowHeight);
    const { since_ns, lengths_ns } = this.calls.events;
    const slack = (2 * (this.to - this.from)) / this.width;
    const now = this.timeAt(event.offsetX);
    let best = null;
    for (let i = this.firstIn(events, now - slack); i < events.length; i++) {
      const each = events[i];
      if (since_ns[each] > now + slack) break;
      if (best === null || lengths_ns[each] > lengths_ns[best]) best = each;
    }
    return best;
  }

  // The events of a row that are drawn at a height in it.
  track(row) {
    return row.events;
  }

  hover(event) {
    const found = this.at(event);
    this.tip.hidden = found === null;
    if (found === null) return;
    const { lengths_ns, since_ns } = this.calls.events;
    this.tip.replaceChildren(
      h("b", {}, this.nameOf(found)),
      ` ${time(lengths_ns[found])}`,
      h("br"),
      `at ${time(since_ns[found])}${this.remark(found)}`,
    );
    const left = Math.min(event.offsetX + 14, this.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${event.offsetY + 18}px`;
  }

  remark(event) {
    return `, returned ${returned(this.calls.events.returned[event])}`;
  }

  pick(found) {
    this.chosen = found;
    this.draw();
    if (found === null) {
      this.picked.replaceChildren();
      return;
    }
    this.picked.replaceChildren(...this.details(found));
  }

  facts(all) {
    return h("dl", { class: "facts" }, all.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value))));
  }

  details(found) {
    const { events } = this.calls;
    const [tid, name] = this.calls.threads[events.threads[found]];
    const stack = this.calls.stacks[events.stacks[found]] ?? [];
    const length = events.lengths_ns[found];
    const off = events.off_cpu_ns[found];
    const facts = [
      ["Call", this.calls.calls[events.calls[found]]],
      ["Thread", `${name} (${tid})`],
      ["Began at", exact(events.since_ns[found])],
      ["Took", `${exact(length)}, ${percent(length, this.end, 3)} % of what is shown here`],
      ["Off the CPUs", off < 0 ? "not known" : `${exact(off)}, ${percent(off, length)} % of it`],
      ["Returned", returned(events.returned[found])],
    ];
    return [
      this.facts(facts),
      stack.length
        ? h(
            "ol",
            { class: "stack" },
            [...stack].reverse().map((frame) => {
              const [function_, object] = this.calls.frames[frame];
              return h("li", {}, function_, object ? h("small", {}, ` ${object}`) : null);
            }),
          )
        : h("p", { class: "note" }, "Its stack was not taken."),
    ];
  }
}
