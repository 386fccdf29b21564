// Two recordings compared: what changed first, then all figures, then of what they are.

import { count, exact, percent, time, unitOf } from "./format.js";
import { h, scroller, svg } from "./dom.js";
import { showPage } from "./frame.js";

const CHANGED = ["more", "less"];
const MOST_NAMED = 10;
const FEW_ROWS = 200;

const KINDS = {
  more: "more",
  less: "less",
  minor: "of next to no time",
  same: "the same",
  unclear: "no telling",
};

// A sign beside the colour.
const JUDGED = { better: "▼ better", worse: "▲ worse" };

function kindText(change) {
  return JUDGED[change.judged] ?? KINDS[change.kind];
}

const COLUMNS = [
  { key: "threads", title: "Threads", text: (change) => change.threads },
  { key: "name", title: "Figure", text: (change) => change.name },
  { key: "before", title: "Before" },
  { key: "after", title: "After" },
  { key: "change", title: "Change", value: (change) => change.change ?? Infinity },
  { key: "interval", title: "Interval" },
  { key: "plot", title: "" },
  { key: "kind", title: "What it is", text: kindText },
  { key: "matters", title: "Of the time", hint: "what share of its threads’ time the change is of", value: (change) => change.matters },
];

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const title = h("h1", {}, "What changed from ", h("span", {}, data.before.file), " to ", h("span", {}, data.after.file));
  showPage(title, h("main", {}, changes(data), new Figures(data).element, sides(data)), "filter figures");
}

function changes(data) {
  const changed = data.changes.filter(({ kind }) => CHANGED.includes(kind));
  const more = changed.length - MOST_NAMED;
  return h(
    "section",
    { id: "changes", "aria-labelledby": "changes-title" },
    h("h2", { id: "changes-title" }, "What changed"),
    changed.length || !data.changes.length || data.too_few ? null : h("p", { class: "all-well" }, "Nothing, beyond chance."),
    changed.length ? h("p", { class: "judgement" }, judgement(changed)) : null,
    h("ol", { class: "findings" }, changed.slice(0, MOST_NAMED).map(named)),
    more > 0 ? h("p", { class: "note" }, `And ${count(more)} more, below.`) : null,
    h("p", { class: "note" }, data.remarks),
  );
}

// How many are worse, how many better, and of how many neither can be said.
function judgement(changed) {
  const those = (judged) => changed.filter((change) => change.judged === judged).length;
  const said = (judged) => h("span", { class: judged }, `${JUDGED[judged]}: ${count(those(judged))}`);
  return [said("worse"), said("better"), h("span", { title: "figures of which neither direction is better, as of how much work there was" }, `neither: ${count(those(null))}`)];
}

// Before and after; lengths in one unit.
function values({ before, after, ns }, times = unitOf(ns ?? [])) {
  return ns ? ns.map((each) => `${times.estimate(each)} ${times.unit}`) : [before, after];
}

function named(change) {
  const [before, after] = values(change);
  return h(
    "li",
    { class: `change ${change.judged ?? ""}` },
    h("p", { class: "share" }, h("b", {}, change.difference.replace(/ .*/, "")), h("span", {}, change.difference.replace(/^\S+/, ""))),
    h(
      "div",
      {},
      h("p", { class: "kind" }, h("span", { class: "name" }, change.threads), h("b", {}, change.name), change.judged ? h("span", { class: "judged" }, JUDGED[change.judged]) : null),
      h("p", { class: "text" }, `${after}, was ${before}`),
      h("p", { class: "note" }, `the change is from ${change.interval}${change.unit === "share" ? " points" : " %"}, and of ${percent(change.matters, 1)} % of these threads’ time`),
    ),
  );
}

// What the two are of, side by side; what differs is marked.
function sides({ before, after }) {
  const of = (side) =>
    new Map([["Recording", side.file], [side.what, `${count(side.samples)}, ${time(side.window_ns)} in all`], ...side.about]);
  const [one, other] = [of(before), of(after)];
  const names = [...new Set([...one.keys(), ...other.keys()])];
  return h(
    "section",
    { id: "sides", "aria-labelledby": "sides-title" },
    h("h2", { id: "sides-title" }, "Of what"),
    scroller(
      "Of what",
      h(
        "table",
        { class: "sides" },
        h("thead", {}, h("tr", {}, h("td"), ["Before", "After"].map((title) => h("th", { scope: "col" }, title)))),
        h(
          "tbody",
          {},
          names.map((name) => {
            const [left, right] = [one.get(name) ?? "–", other.get(name) ?? "–"];
            return h("tr", { class: left === right ? null : "differs" }, h("th", { scope: "row" }, name), h("td", {}, left), h("td", {}, right));
          }),
        ),
      ),
    ),
  );
}

class Figures {
  constructor({ changes: all, left_out: leftOut }) {
    this.all = all;
    this.times = unitOf(all.flatMap(({ ns }) => ns ?? []));
    this.leftOut = leftOut;
    this.sort = { key: null, down: false };
    this.showAll = false;
    this.search = h("input", {
      type: "search",
      placeholder: "Filter by threads or figure",
      "aria-label": "Filter by threads or figure",
      "data-search": true,
      oninput: () => this.draw(),
    });
    const kinds = [["changed", "What changed"], ["all", "All figures"]];
    this.kind = h(
      "select",
      { "aria-label": "Which figures", onchange: () => this.draw() },
      kinds.map(([value, name]) => h("option", { value }, name)),
    );
    if (!all.some(({ kind }) => CHANGED.includes(kind))) this.kind.value = "all";
    this.found = h("p", { class: "found", "aria-live": "polite" });
    this.headings = h("tr");
    this.body = h("tbody");
    this.element = h(
      "section",
      { id: "figures", "aria-labelledby": "figures-title" },
      h("div", { class: "heading" }, h("h2", { id: "figures-title" }, "Figures"), this.found, this.search, this.kind),
      h("p", { class: "note" }, "The line is the interval of the change, the dot the change itself; in the grey band it counts as none. Its scale is the root, to ±100 %."),
      scroller("Figures", h("table", { class: "threads figures" }, h("thead", {}, this.headings), this.body)),
    );
    this.draw();
  }

  draw() {
    this.headings.replaceChildren(...COLUMNS.map((column) => this.heading(column)));
    const words = this.search.value.toLowerCase().split(/\s+/);
    const wanted = this.sorted(
      this.all.filter(
        (change) =>
          (this.kind.value === "all" || CHANGED.includes(change.kind)) &&
          words.every((word) => `${change.threads} ${change.name}`.toLowerCase().includes(word)),
      ),
    );
    const shown = this.showAll ? wanted : wanted.slice(0, FEW_ROWS);
    this.body.replaceChildren(...shown.map((change) => this.row(change)));
    if (wanted.length > shown.length) this.body.append(this.moreRow(wanted.length - shown.length));
    const left = this.leftOut ? `; ${count(this.leftOut)} that matter less are left out` : "";
    this.found.textContent = `${count(wanted.length)} of ${count(this.all.length)}${left}`;
  }

  // As they come: what matters most first.
  sorted(changes) {
    const column = COLUMNS.find(({ key }) => key === this.sort.key);
    if (!column) return changes;
    const order = column.text
      ? (a, b) => column.text(a).localeCompare(column.text(b), "en", { numeric: true })
      : (a, b) => column.value(a) - column.value(b);
    return [...changes].sort((a, b) => (this.sort.down ? order(b, a) : order(a, b)));
  }

  sortBy(column) {
    this.sort = { key: column.key, down: this.sort.key === column.key ? !this.sort.down : !column.text };
    this.draw();
    this.headings.querySelector(`[data-key="${column.key}"]`).focus();
  }

  heading(column) {
    const active = this.sort.key === column.key;
    if (!column.title) return h("td", { class: `c-${column.key}` });
    const button = { type: "button", "data-key": column.key, title: column.hint, onclick: () => this.sortBy(column) };
    return h(
      "th",
      { scope: "col", class: `c-${column.key}`, "aria-sort": active ? (this.sort.down ? "descending" : "ascending") : null },
      column.text || column.value ? h("button", button, column.title) : column.title,
    );
  }

  row(change) {
    const changed = CHANGED.includes(change.kind);
    const [before, after] = values(change, this.times).map((text, place) =>
      h("td", { class: `number c-${place ? "after" : "before"}`, title: change.ns && exact(change.ns[place]) }, text),
    );
    return h(
      "tr",
      { class: `figure ${changed ? "changed" : "unchanged"} ${change.judged ?? ""}` },
      h("th", { scope: "row", class: "c-threads" }, h("span", { class: "name" }, change.threads)),
      h("td", { class: "c-name" }, change.name),
      before,
      after,
      ["difference", "interval"].map((key) => h("td", { class: `number c-${key}` }, change[key])),
      h("td", { class: "c-plot" }, plot(change)),
      h("td", { class: "c-kind" }, kindText(change)),
      h("td", { class: "number c-matters" }, `${percent(change.matters, 1)} %`),
    );
  }

  moreRow(more) {
    const act = () => {
      this.showAll = true;
      this.draw();
    };
    const button = h("button", { class: "quiet", type: "button", onclick: act }, `${count(more)} more figures`);
    return h("tr", { class: "more-threads" }, h("td", { colspan: COLUMNS.length }, button));
  }
}

const WIDTH = 160;
const HEIGHT = 14;

// Where a change is drawn: small ones are distinguished, and what is beyond ±100 % is at the end.
function at(change) {
  const bounded = Math.max(-1, Math.min(1, change));
  return WIDTH / 2 + Math.sign(bounded) * Math.sqrt(Math.abs(bounded)) * (WIDTH / 2 - 3);
}

function plot({ change, low, high, tolerance }) {
  const [from, to] = [at(low), at(high ?? 1)];
  const band = at(tolerance) - at(-tolerance);
  return svg(
    "svg",
    { class: "plotted", width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
    svg("rect", { class: "band", x: at(-tolerance), y: 0, width: band, height: HEIGHT }),
    svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: HEIGHT }),
    svg("line", { class: "interval", x1: from, x2: Math.max(to, from + 1), y1: HEIGHT / 2, y2: HEIGHT / 2 }),
    svg("circle", { class: "dot", cx: at(change ?? 1), cy: HEIGHT / 2, r: 3 }),
  );
}

main();
