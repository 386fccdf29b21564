// The page: its parts, which sample they show, and the keys.

import { callModes, offCpuTree, onCpuTree } from "./tree.js";
import { about, sampleName, top, verdict } from "./head.js";
import { Chains } from "./chain.js";
import { Flame } from "./flame.js";
import { h } from "./dom.js";
import { Rows } from "./rows.js";
import { Series } from "./series.js";
import { Slices } from "./slices.js";
import { themeChoice } from "./frame.js";
import { Threads } from "./threads.js";
import { Timeline } from "./timeline.js";

const EVERY = "all";

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const series = data.samples.length > 1 ? new Series(data, select, selectAndShow) : null;
  const chains = new Chains();
  const threads = new Threads(data.parts, series?.bars ?? null);
  const coverage = h("div", { class: "tables" });
  const choice = sampleChoice(data, select);

  function select(place) {
    const chosen = data.samples[place];
    choice.value = chosen ? String(place) : EVERY;
    // The choice has it as a text.
    series?.selected(chosen ? Number(place) : null);
    const shown = chosen?.threads ? chosen : data;
    threads.show(shown.threads);
    chains.show(shown.threads);
    coverage.replaceChildren(...shown.coverage.map((table) => new Rows(table).element));
  }

  // Of what is below the threads.
  function selectAndShow(place) {
    select(place);
    threads.element.scrollIntoView({ block: "nearest" });
  }

  const print = h("button", { type: "button", onclick: () => window.print() }, "Print");
  const controls = [data.samples.length > 1 ? choice : null, themeChoice(), print];
  document.body.append(
    top(data, controls),
    h("main", {}, verdict(data, select), threads.element, chains.element, coverage, series?.element ?? null, slices(data), flame(data), timeline(data), about(data)),
    foot(),
  );
  select(EVERY);
  addEventListener("keydown", keys);
  document.documentElement.dataset.ready = "yes";
}

function sampleChoice(data, select) {
  const options = data.samples.map((sample, place) =>
    h("option", { value: place, disabled: !sample.threads }, sampleName(data, place)),
  );
  const choice = h(
    "select",
    { "aria-label": "Sample", onchange: () => select(choice.value) },
    h("option", { value: EVERY }, `All ${data.samples_measured} samples`),
    options,
  );
  return choice;
}

function flame(data) {
  const modes = flameModes(data);
  if (!modes.length) return null;
  const options = modes.map(({ name }, place) => h("option", { value: place }, name));
  const mode = h("select", { "aria-label": "What the widths are", onchange: () => draw() }, options);
  const threads = [...data.threads].sort((a, b) => b.lost_ns - a.lost_ns);
  const of = h(
    "select",
    { "aria-label": "Thread", onchange: () => draw() },
    h("option", { value: EVERY }, "All threads"),
    threads.map(({ name, tid }, place) => h("option", { value: place }, `${name} (${tid})`)),
  );
  const graph = new Flame([mode, of]);
  const draw = () => {
    const { name, tree, note } = modes[mode.value];
    graph.show(tree(of.value === EVERY ? threads : [threads[of.value]]), name, note);
  };
  draw();
  return section("flame", "Flame graph", "where the time went, all samples together", graph.element);
}

// Of calls one by one there are stacks; of all time there is the account.
function flameModes({ calls, threads, parts }) {
  const modes = [];
  if (calls) modes.push(...callModes(calls));
  const ofAccount = [
    { name: "All time on a CPU", tree: (of) => onCpuTree(of, parts) },
    { name: "All time off the CPUs", tree: (of) => offCpuTree(of, parts) },
  ];
  // In a short round a thread may have been on no CPU.
  modes.push(...ofAccount.filter(({ tree }) => tree(threads).value));
  return modes;
}

function timeline(data) {
  if (!data.calls?.events.since_ns.length) return null;
  const hint = "Drag to zoom, double-click to show all; Ctrl and the wheel zoom, Shift and the wheel move. A click shows a call’s stack.";
  return section("timeline", "Timeline", "single system calls", h("p", { class: "note hint" }, hint), new Timeline(data).element);
}

function slices(data) {
  if (!data.timeline) return null;
  const hint = "Of each thread its calls, below these its states, and then interrupts. Drag to zoom, double-click to show all; Ctrl and the wheel zoom, Shift and the wheel move.";
  return section("slices", "Timeline", "everything that threads did", h("p", { class: "note hint" }, hint), new Slices(data).element);
}

function section(id, title, about_, ...content) {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("div", { class: "heading" }, h("h2", { id: `${id}-title` }, title, h("small", {}, about_))),
    content,
  );
}

function foot() {
  const said = [["/", "filter threads"], ["↑ ↓", "move"], ["Enter", "open, zoom"], ["Esc", "close, zoom out"], ["+ −", "zoom the timeline"]];
  return h("footer", {}, said.map(([key, what]) => h("span", {}, h("kbd", {}, key), ` ${what}`)));
}

function keys(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  const search = document.querySelector("[data-search]");
  if (event.key === "/" && !typing) search.focus();
  else if (event.key === "Escape" && event.target === search) search.blur();
  else if (event.key === "ArrowDown" && event.target === search) document.querySelector("tr.thread button")?.focus();
  else return;
  event.preventDefault();
}

main();
