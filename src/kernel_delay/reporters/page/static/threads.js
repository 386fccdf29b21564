// The table of threads: one row each, the one that lost most first.

import { bar, byState, legend, STATE_NAMES } from "./parts.js";
import { count, exact, percent } from "./format.js";
import { h, scroller } from "./dom.js";
import { details } from "./thread.js";

const OFF = ["stopped", "throttled", "frozen"];

function sumOf(row, states) {
  return states.reduce((sum, state) => sum + row.sums[state], 0);
}

// What can be sorted by. Shares are of the thread's own time.
const COLUMNS = [
  { key: "name", title: "Thread", text: true, value: (row) => row.thread.name },
  { key: "bar", title: "Where its time went" },
  { key: "lost", title: "Lost", hint: "what others had: the kernel, interrupts, other tasks, quotas, freezers, stops, owners of locks", ns: (row) => row.thread.lost_ns },
  { key: "user", title: "User", ns: (row) => row.sums.user },
  { key: "kernel", title: "Kernel", ns: (row) => row.sums.kernel },
  { key: "irq", title: "IRQ", hint: "hard and soft interrupts", ns: (row) => row.sums.irq },
  { key: "ready", title: "Ready", hint: "could run, and had no CPU", ns: (row) => row.sums.ready },
  { key: "blocked", title: "Blocked", hint: "asleep until something wakes it", ns: (row) => row.sums.blocked },
  { key: "held", title: "Held", hint: "stopped, throttled or frozen", ns: (row) => sumOf(row, OFF) },
  { key: "calls", title: "Calls", unit: "count", value: (row) => row.calls },
];

const FEW_IDLE = 4;
const FEW_ROWS = 200;

export class Threads {
  // `samples` are what a sample is chosen by, if there are several.
  constructor(parts, samples) {
    this.parts = parts;
    this.sort = { key: "lost", down: true };
    this.open = new Set();
    this.showIdle = false;
    this.showAll = false;
    this.filter = "";
    this.search = h("input", {
      type: "search",
      placeholder: "Filter by name or TID",
      "aria-label": "Filter threads by name or TID",
      "data-search": true,
      oninput: () => {
        this.filter = this.search.value.trim().toLowerCase();
        this.draw();
      },
    });
    this.count = h("p", { class: "found", "aria-live": "polite" });
    this.legend = h("div");
    this.body = h("tbody");
    this.headings = h("tr");
    this.element = h(
      "section",
      { id: "threads", "aria-labelledby": "threads-title" },
      h("div", { class: "heading" }, h("h2", { id: "threads-title" }, "Threads"), this.count, this.search),
      samples,
      this.legend,
      scroller("Threads", h("table", { class: "threads" }, h("thead", {}, this.headings), this.body)),
    );
    this.body.addEventListener("keydown", (event) => this.key(event));
  }

  show(threads) {
    this.rows = threads.map((thread) => {
      const sums = byState(this.parts, thread.time_ns);
      const calls = thread.calls.reduce((sum, call) => sum + call.lengths.count, 0);
      const slept = thread.time_ns !== null && sums.blocked === thread.whole_ns && !calls;
      return { thread, sums, calls, slept, id: `${thread.tid}/${thread.name}` };
    });
    const seen = STATE_NAMES.filter((state) => this.rows.some((row) => row.sums[state] > 0));
    this.legend.replaceChildren(legend(seen));
    this.draw();
  }

  sortBy(key) {
    const text = COLUMNS.find((column) => column.key === key).text;
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : !text };
    this.draw();
    this.headings.querySelector(`[data-key="${key}"]`).focus();
  }

  sorted(rows) {
    const { key, down } = this.sort;
    const column = COLUMNS.find((each) => each.key === key);
    // Threads that ended can stand for many, so shares are what is compared.
    const value = column.value ?? ((row) => (row.thread.whole_ns ? column.ns(row) / row.thread.whole_ns : 0));
    const order = (a, b) =>
      column.text
        ? value(a).localeCompare(value(b), "en", { numeric: true })
        : value(a) - value(b);
    return [...rows].sort((a, b) => (down ? order(b, a) : order(a, b)) || a.thread.tid - b.thread.tid);
  }

  draw() {
    this.headings.replaceChildren(...COLUMNS.map((column) => this.heading(column)));
    const wanted = this.rows.filter(({ thread }) =>
      `${thread.name} ${thread.tid}`.toLowerCase().includes(this.filter),
    );
    const idle = wanted.filter((row) => row.slept);
    const folds = !this.showIdle && !this.filter && idle.length >= FEW_IDLE;
    const rows = this.sorted(folds ? wanted.filter((row) => !row.slept) : wanted);
    const shown = this.showAll ? rows : rows.slice(0, FEW_ROWS);
    this.body.replaceChildren(...shown.flatMap((row) => this.row(row)));
    const more = rows.length - shown.length;
    if (more) this.body.append(this.moreRow(`${count(more)} more threads`, () => (this.showAll = true)));
    if (folds)
      this.body.append(this.moreRow(`${count(idle.length)} threads slept throughout`, () => (this.showIdle = true)));
    const first = this.body.querySelector("tr.thread button");
    if (first) first.tabIndex = 0;
    const all = count(this.rows.length);
    this.count.textContent = this.filter ? `${count(rows.length)} of ${all}` : all;
  }

  heading(column) {
    const sorts = column.ns || column.value;
    const active = this.sort.key === column.key;
    return h(
      "th",
      {
        scope: "col",
        class: `c-${column.key}`,
        "aria-sort": active ? (this.sort.down ? "descending" : "ascending") : null,
      },
      sorts
        ? h(
            "button",
            { type: "button", "data-key": column.key, title: column.hint, onclick: () => this.sortBy(column.key) },
            column.title,
            column.ns ? h("small", {}, " %") : null,
          )
        : column.title,
    );
  }

  row(row) {
    const { thread } = row;
    const open = this.open.has(row.id);
    const cells = COLUMNS.map((column) => {
      if (column.key === "name") return this.name(row, open);
      if (column.key === "bar")
        return h("td", { class: "c-bar" }, thread.time_ns ? bar(row.sums) : h("span", { class: "none" }, "no account"));
      if (column.ns) {
        const ns = column.ns(row);
        const shown = thread.time_ns ? percent(ns, thread.whole_ns) : "–";
        return h("td", { class: `number c-${column.key}${ns ? "" : " zero"}`, title: exact(ns) }, shown);
      }
      return h("td", { class: `number c-${column.key}${row.calls ? "" : " zero"}` }, count(row.calls));
    });
    const line = h(
      "tr",
      {
        class: "thread",
        "data-id": row.id,
        onclick: (event) => {
          if (!getSelection().toString() || event.detail === 0) this.toggle(row);
        },
      },
      cells,
    );
    if (!open) return [line];
    const inside = h("td", { colspan: COLUMNS.length }, details(thread, this.parts));
    return [line, h("tr", { class: "details" }, inside)];
  }

  // A row of a table can't be expanded, by ARIA: the button in it is what can. Its click is the row's.
  name({ thread }, open) {
    return h(
      "th",
      { scope: "row", class: "c-name" },
      h(
        "button",
        { type: "button", class: "name", tabindex: "-1", "aria-expanded": String(open) },
        h("span", { class: "arrow", "aria-hidden": "true" }),
        thread.name || "(no name)",
      ),
      thread.tid ? h("span", { class: "tid" }, thread.tid) : h("span", { class: "tid" }, "ended"),
    );
  }

  // A row that stands for others, until it is asked for them.
  moreRow(text, show) {
    const act = () => {
      show();
      this.draw();
    };
    const button = h("button", { class: "quiet", type: "button", onclick: act }, text);
    return h("tr", { class: "more-threads" }, h("td", { colspan: COLUMNS.length }, button));
  }

  toggle(row) {
    if (!this.open.delete(row.id)) this.open.add(row.id);
    this.draw();
    this.focus(row.id);
  }

  focus(id) {
    const line = [...this.body.querySelectorAll("tr.thread")].find((each) => each.dataset.id === id);
    if (!line) return;
    for (const each of this.body.querySelectorAll("tr.thread button")) each.tabIndex = -1;
    const button = line.querySelector("button");
    button.tabIndex = 0;
    button.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const line = event.target.closest("tr.thread");
    if (!line) return;
    const lines = [...this.body.querySelectorAll("tr.thread")];
    const place = lines.indexOf(line);
    const row = this.rows.find((each) => each.id === line.dataset.id);
    const open = this.open.has(row.id);
    const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: lines.length - 1 }[event.key];
    if (lines[to]) this.focus(lines[to].dataset.id);
    else if ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open)) this.toggle(row);
    else if (event.key === "Escape" && open) this.toggle(row);
    else return;
    event.preventDefault();
  }
}
