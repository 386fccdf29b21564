// All that is known of one thread.

import { bar, histogram, stateOf, swatch } from "./parts.js";
import { count, exact, percent, unitOf } from "./format.js";
import { h, scroller } from "./dom.js";

const SPLIT = ["user", "ready", "blocked", "stopped", "unaccounted"];
const SPLIT_NAMES = ["on CPU", "ready", "blocked", "stopped", "unaccounted"];
const SHOWN_ROWS = 12;

export function details(thread, parts) {
  const columns = [
    account(thread, parts),
    lengths(thread),
    rows(thread.locks, "Who held its locks", "while it waited for them", "Thread", "Waits"),
    rows(thread.takers, "Who had the CPU", "while it was ready", "Task", "Waits"),
    rows(thread.interrupts, "Interrupts", "served on its time", "Handler", "Runs"),
    facts(thread),
  ];
  return h("div", {}, calls(thread), sleeps(thread.sleeps), h("div", { class: "columns" }, columns));
}

function card(title, about, ...content) {
  return h(
    "section",
    { class: "card" },
    h("h3", {}, title, about ? h("small", {}, about) : null),
    scroller(title, content),
  );
}

function cell(text, title, css = "number") {
  return h("td", { class: text === "0" ? `${css} zero` : css, title }, text);
}

function timeCell(ns, write) {
  return cell(write(ns), exact(ns));
}

function headings(...names) {
  return h(
    "thead",
    {},
    h("tr", {}, names.map((name) => h("th", { scope: "col", class: name.startsWith("<") ? null : "number" }, name.replace(/^</, "")))),
  );
}

function account(thread, parts) {
  if (!thread.time_ns) return null;
  const { unit, write } = unitOf([...thread.time_ns, thread.whole_ns]);
  const shown = parts.map((name, place) => [name, thread.time_ns[place]]).filter(([, ns]) => ns > 0);
  const line = ([name, ns]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, swatch(stateOf(name)), name),
      timeCell(ns, write),
      cell(percent(ns, thread.whole_ns, 2)),
    );
  return card(
    "Where its time went",
    null,
    h(
      "table",
      {},
      headings("<State", unit, "%"),
      h("tbody", {}, shown.map(line)),
      h(
        "tfoot",
        {},
        h("tr", {}, h("th", { scope: "row" }, "Total"), timeCell(thread.whole_ns, write), cell("100.00")),
      ),
    ),
  );
}

function calls(thread) {
  if (!thread.calls.length) return null;
  const split = thread.calls.some((call) => call.split_ns);
  const known = thread.calls.some((call) => call.lengths.percentiles_ns.length);
  const denied = thread.calls.some((call) => call.without_entry);
  const { unit, write } = unitOf(thread.calls.flatMap(({ lengths }) => [lengths.total_ns, lengths.max_ns, ...lengths.percentiles_ns]));
  const line = (call) => {
    const { count: made, total_ns, max_ns, percentiles_ns, histogram: counts } = call.lengths;
    return h(
      "tr",
      {},
      h("th", { scope: "row", title: `number ${call.number}` }, call.name),
      cell(count(made)),
      timeCell(total_ns, write),
      split ? h("td", { class: "split" }, call.split_ns ? splitBar(call.split_ns) : null) : null,
      known ? [0, 1, 2].map((place) => (percentiles_ns.length ? timeCell(percentiles_ns[place], write) : cell(""))) : null,
      timeCell(max_ns, write),
      known ? h("td", {}, counts.length ? histogram(counts, `lengths of ${call.name}`) : null) : null,
      denied ? cell(count(call.without_entry)) : null,
    );
  };
  const names = ["<Call", "Count", `Total ${unit}`];
  if (split) names.push("<On CPU, ready, blocked");
  if (known) names.push("P50", "P90", "P99");
  names.push("Max");
  if (known) names.push("<Lengths");
  if (denied) names.push("Denied");
  return card(
    "System calls",
    null,
    h("table", { class: split ? "full" : null }, headings(...names), h("tbody", {}, thread.calls.map(line))),
  );
}

function splitBar(times) {
  const names = SPLIT.filter((_, place) => times[place] > 0);
  const sums = Object.fromEntries(SPLIT.map((name, place) => [name, times[place]]));
  const drawn = bar(sums, names);
  const whole = times.reduce((a, b) => a + b, 0);
  const said = SPLIT_NAMES.map((name, place) => [name, times[place]]).filter(([, ns]) => ns > 0);
  const text = said.map(([name, ns]) => `${name} ${percent(ns, whole)} %`).join(", ");
  drawn.setAttribute("aria-label", text);
  [...drawn.children].forEach((piece, place) => {
    const [name, ns] = said[place];
    if (name === "on CPU") piece.className = "s-kernel";
    piece.title = `${name}: ${exact(ns)}, ${percent(ns, whole)} %`;
  });
  return drawn;
}

const ABOUT = {
  run: "on a CPU, each time",
  ready: "waits for a CPU",
  stopped: "by a signal or a debugger",
  "poll to poll": "rounds of its main loop",
};

function lengths(thread) {
  const found = Object.entries(thread.intervals);
  if (!found.length) return null;
  const { unit, write } = unitOf(found.flatMap(([, { max_ns, percentiles_ns }]) => [max_ns, ...percentiles_ns]));
  return card(
    "Stretches and waits",
    null,
    h(
      "table",
      {},
      headings("<What", "Count", `P50 ${unit}`, "P99", "Max", "<Lengths"),
      h(
        "tbody",
        {},
        found.map(([name, { count: made, max_ns, percentiles_ns, histogram: counts }]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row", title: ABOUT[name] }, name),
            cell(count(made)),
            [0, 2].map((place) => (percentiles_ns.length ? timeCell(percentiles_ns[place], write) : cell("–"))),
            timeCell(max_ns, write),
            h("td", {}, counts.length ? histogram(counts, name) : null),
          ),
        ),
      ),
    ),
  );
}

// Those that took most one by one, and the rest as one.
function rows(all, title, about, first, counted) {
  if (!all.length) return null;
  const whole = all.reduce((sum, row) => sum + row.ns, 0);
  const { unit, write } = unitOf(all.map((row) => row.ns));
  const rest = all.slice(SHOWN_ROWS);
  const line = (row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, row.name || row.about, row.name && row.about ? h("small", {}, ` ${row.about}`) : null),
      cell(row.count ? count(row.count) : ""),
      timeCell(row.ns, write),
      cell(percent(row.ns, whole, 1)),
    );
  const body = h("tbody", {}, all.slice(0, SHOWN_ROWS).map(line));
  if (rest.length) {
    const more = h(
      "tr",
      { class: "more" },
      h(
        "td",
        { colspan: 4 },
        h("button", { class: "quiet", type: "button", onclick: () => more.replaceWith(...rest.map(line)) }, `${count(rest.length)} more, ${write(rest.reduce((sum, row) => sum + row.ns, 0))} ${unit}`),
      ),
    );
    body.append(more);
  }
  return card(title, about, h("table", {}, headings(`<${first}`, counted, unit, "%"), body));
}

function sleeps(all) {
  if (!all.length) return null;
  const { unit, write } = unitOf(all.flatMap((sleep) => [sleep.ns, sleep.max_ns]));
  const line = (sleep) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        sleep.stack.length
          ? h("details", {}, h("summary", {}, where(sleep)), h("ol", { class: "stack" }, sleep.stack.map((name) => h("li", {}, name))))
          : where(sleep),
      ),
      cell(count(sleep.count)),
      sleepTime(sleep, write),
      timeCell(sleep.max_ns, write),
      h("td", {}, waker(sleep)),
    );
  return card(
    "Where it slept",
    "and who woke it",
    h("table", {}, headings("<For", "Count", `Total ${unit}`, "Max", "<Mostly woken by"), h("tbody", {}, all.slice(0, 4 * SHOWN_ROWS).map(line))),
    all.length > 4 * SHOWN_ROWS ? h("p", { class: "note" }, `and ${count(all.length - 4 * SHOWN_ROWS)} places more`) : null,
  );
}

function where(sleep) {
  const place = [sleep.call ? `${sleep.reason} in ${sleep.call}` : sleep.reason];
  if (sleep.file) place.push(h("small", {}, ` ${sleep.file}`));
  if (sleep.uninterruptible) place.push(h("small", {}, " no signal ends it"));
  return place;
}

// Of short waits only some are looked at, and stand for the others.
function sleepTime({ ns, estimated_ns: estimated }, write) {
  if (!estimated) return timeCell(ns, write);
  return cell(`≈ ${write(ns)}`, `${exact(ns)}, of which ${exact(estimated)} are estimated`);
}

function waker(sleep) {
  if (!sleep.wakers.length) return "–";
  const [{ name, about, ns }] = sleep.wakers;
  return [name, about ? h("small", {}, ` ${about}`) : null, h("small", {}, `, ${percent(ns, sleep.ns)} %`)];
}

function facts(thread) {
  if (!thread.facts.length) return null;
  return card(
    "Else",
    null,
    h("dl", { class: "facts" }, thread.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
  );
}
