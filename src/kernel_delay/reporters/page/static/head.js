// The page's beginning: whose it is, the verdict, what must be known of how it was measured. Its end
// says where and when that was.

import { count, exact, fixed, percent, time } from "./format.js";
import { h } from "./dom.js";

export function top(data, controls) {
  const known = new Map(data.about);
  // Of several processes it is the first one's.
  const command = known.has("With") ? null : known.get("Command line");
  return h(
    "header",
    { class: "top" },
    h(
      "div",
      {},
      h("p", { class: "brand" }, "kernel-delay"),
      h("h1", {}, data.title),
      command ? h("p", { class: "command" }, command) : null,
      h("p", { class: "measured" }, measured(data)),
    ),
    h("div", { class: "controls" }, controls),
  );
}

// Where, when and how long, in a line.
function measured(data) {
  const known = new Map(data.about);
  const first = data.samples[0];
  return [
    ...["Node", "Host", "Kernel"].map((name) => known.get(name)),
    first ? start(first) : null,
    first ? length(data)[1] : null,
  ]
    .filter(Boolean)
    .join(", ");
}

function start(sample) {
  return sample.start_time.replace("T", " ").replace(/\.\d+/, "").replace(/\+00:00$/, " UTC");
}

function length(data) {
  return data.samples.length > 1
    ? ["Samples", `${count(data.samples_measured)} samples, ${time(data.measured_ns)} in all`]
    : ["Window", `${time(data.measured_ns)}${ENDED[data.samples[0].ended] ?? ""}`];
}

// What was measured, at the page's end: all that is known of it.
export function about(data) {
  const rows = [...data.about];
  if (data.samples?.length) {
    rows.push(["Measured", data.samples[0].start_time.replace("T", " ").replace(/\+00:00$/, " UTC")]);
    rows.push(length(data));
  }
  return h(
    "section",
    { id: "about", "aria-labelledby": "about-title" },
    h("h2", { id: "about-title" }, "What was measured"),
    h(
      "dl",
      { class: "about" },
      rows.map(([name, value]) =>
        h("div", { class: value.length > LONG ? "long" : null }, h("dt", {}, name), h("dd", {}, value)),
      ),
    ),
  );
}

const LONG = 36;

const ENDED = {
  interrupt: ", interrupted",
  exit: ", until the process exited",
  timeout: ", as the stop trigger did not come",
};

// `select` shows a sample.
export function verdict(data, select) {
  const findings = data.findings;
  const judged = data.samples.some((sample) => sample.judged);
  const accused = findings.some(({ finding }) => !finding.remark);
  let said = null;
  if (!data.samples.length) said = "No window was measured.";
  else if (!judged) said = "Not judged: there is no account of the time (--no-accounting).";
  else if (!accused && findings.some(({ finding }) => finding.waits))
    said = "Whether anything kept a thread from its work is not known: see the waits below.";
  else if (!accused && data.samples.some((sample) => sample.doubt)) said = notKnown(data.samples);
  else if (!accused && data.samples.some((sample) => sample.slept_long))
    said = "No cause of a delay was found. A thread slept for a third of a window, or longer.";
  else if (!accused) said = "Nothing kept a thread from its work for long.";
  return h(
    "section",
    { id: "verdict", "aria-labelledby": "verdict-title" },
    h("h2", { id: "verdict-title" }, "Verdict"),
    said ? h("p", { class: "all-well" }, said) : null,
    list(findings, data, select),
    losses(data),
  );
}

// Why nobody can be acquitted, by the first sample of which that is so.
function notKnown(samples) {
  const place = samples.findIndex((sample) => sample.doubt);
  const where = samples.length > 1 ? `, in sample ${count(place + 1)}` : "";
  return `Whether anything kept a thread from its work is not known: ${samples[place].doubt}${where}.`;
}

// The first finding is shown whole, the others by their first sentence, those after FEW if asked for:
// so the threads are on the first screen. On paper all is shown.
function list(findings, data, select) {
  const shown = h("ol", { class: "findings" }, findings.slice(0, FEW).map((each, place) => finding(each, !place, data, select)));
  const rest = findings.slice(FEW).map((each) => finding(each, false, data, select));
  if (!rest.length) return shown;
  return [shown, folded({ class: "more" }, h("summary", {}, `${count(rest.length)} more`), h("ol", { class: "findings" }, rest))];
}

const FEW = 7;

function finding({ finding: found, sample, samples }, isFirst, data, select) {
  const figures = found.evidence.map(([name, value]) => figure(name, value));
  const share = h(
    "span",
    { class: "share", title: "of the window, of the thread that it hit worst" },
    h("b", {}, percent(found.share, 1, found.share >= 0.1 ? 0 : 1)),
    h("span", {}, " %"),
  );
  const text = found.text.replaceAll(" %", "\u00a0%");
  const [first, rest] = isFirst ? [text, ""] : firstSentence(text);
  const place = data.samples.length > 1 ? worstSample(sample, samples, data, select) : null;
  const more = [
    rest ? h("p", { class: "text" }, rest) : null,
    found.advice ? h("p", { class: "advice" }, h("b", {}, "What to do: "), found.advice) : null,
    isFirst ? null : place,
    figures.length
      ? h("details", { class: "evidence" }, h("summary", {}, "Evidence"), h("dl", {}, figures))
      : null,
  ];
  const kind = h(
    "span",
    { class: "kind" },
    h("span", { class: "rule" }, found.remark ? `Remark: ${found.rule}` : capital(found.rule)),
    h("span", { class: "who" }, WHO[found.who] ?? found.who),
    isFirst ? place : null,
  );
  const css = found.remark ? "remark" : "finding";
  if (isFirst) return h("li", { class: css }, share, h("div", {}, kind, h("p", { class: "text" }, first), more));
  const summary = h("summary", {}, share, h("span", {}, kind, h("span", { class: "text" }, first)));
  return h("li", { class: css }, folded({ class: "folded" }, summary, h("div", { class: "rest" }, more)));
}

function worstSample(sample, samples, data, select) {
  return h(
    "button",
    { class: "quiet", type: "button", disabled: !data.samples[sample], onclick: () => select(sample) },
    `worst in sample ${sample + 1}; in ${count(samples)} of ${count(data.samples_measured)}`,
  );
}

// A text's first sentence, and the rest of it.
function firstSentence(text) {
  const end = text.search(/\. /);
  return end < 0 ? [text, ""] : [text.slice(0, end + 1), text.slice(end + 2)];
}

const WHO = {
  program: "caused by the program",
  "other process": "caused by another process",
  kernel: "caused by the kernel or a device",
  limit: "caused by a limit",
  hypervisor: "caused by the hypervisor",
  person: "caused by somebody",
  tool: "caused by kernel-delay",
};

function figure(name, value) {
  const isTime = name.endsWith("_ns");
  const label = (isTime ? name.slice(0, -3) : name).replaceAll("_", " ");
  const shown = isTime ? exact(value) : /(tid|pid)$/.test(name) ? String(value) : count(value);
  return h("div", {}, h("dt", {}, label), h("dd", {}, shown));
}

function losses(data) {
  const lines = data.remarks.map(capital);
  const folded = data.samples.filter((sample) => !sample.threads).length;
  if (folded && data.samples.length > 1)
    lines.push(`${count(folded)} samples have no details of their own here, for their size; they are in the totals.`);
  const left = data.samples_measured - data.samples.length;
  if (left) lines.push(`${count(left)} samples after these are not here one by one, for their number; they are in the totals and the verdict.`);
  if (data.skipped) lines.push(`${count(data.skipped)} windows were shorter than asked for, and are left out.`);
  if (!lines.length) return null;
  const title = "What to know of this measurement";
  return h(
    "aside",
    { class: "losses", "aria-label": title },
    h("h3", {}, title),
    foldedLines(lines),
  );
}

const FEW_LINES = 3;

// Lines by their first sentence, and the rest of each if asked for.
export function foldedLines(lines) {
  const line = (text) => {
    const [first, rest] = firstSentence(text);
    return h("li", {}, rest ? folded({}, h("summary", {}, first), h("p", {}, rest)) : first);
  };
  const more = lines.slice(FEW_LINES);
  const shown = h("ul", {}, lines.slice(0, FEW_LINES).map(line));
  return more.length ? [shown, folded({}, h("summary", {}, `${count(more.length)} more`), h("ul", {}, more.map(line)))] : shown;
}

// What is shown if asked for, and on paper.
function folded(attributes, summary, content) {
  const element = h("details", attributes, summary, content);
  addEventListener("beforeprint", () => (element.open = true));
  return element;
}

export function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function sampleName(data, place) {
  const sample = data.samples[place];
  return `Sample ${place + 1}, at ${fixed(sample.since_ns / 1e9, 3)} s`;
}
