// The page's beginning: whose it is, the verdict, what must be known of how it was measured.

import { count, exact, fixed, percent, time } from "./format.js";
import { h } from "./dom.js";

export function top(data, controls) {
  const command = data.about.find(([name]) => name === "Command line")?.[1];
  return h(
    "header",
    { class: "top" },
    h(
      "div",
      {},
      h("p", { class: "brand" }, "kernel-delay"),
      h("h1", {}, data.title),
      command ? h("p", { class: "command" }, command) : null,
    ),
    h("div", { class: "controls" }, controls),
  );
}

export function about(data) {
  const windows = data.samples ?? [];
  const rows = data.about.filter(([name]) => name !== "Command line");
  if (windows.length) {
    const begin = windows[0].start_time.replace("T", " ").replace(/\+00:00$/, " UTC");
    rows.push(["Measured", begin]);
    rows.push([
      windows.length > 1 ? `${count(data.samples_measured)} samples` : "Window",
      windows.length > 1 ? `${time(data.measured_ns)} in all` : `${time(data.measured_ns)}${ENDED[windows[0].ended] ?? ""}`,
    ]);
  }
  return h(
    "dl",
    { class: "about" },
    rows.map(([name, value]) =>
      h("div", { class: value.length > LONG ? "long" : null }, h("dt", {}, name), h("dd", {}, value)),
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
  else if (!accused && data.samples.some((sample) => sample.slept_long))
    said = "No cause of a delay was found. A thread slept for a third of a window, or longer.";
  else if (!accused) said = "Nothing kept a thread from its work for long.";
  return h(
    "section",
    { id: "verdict", "aria-labelledby": "verdict-title" },
    h("h2", { id: "verdict-title" }, "Verdict"),
    said ? h("p", { class: "all-well" }, said) : null,
    h("ol", { class: "findings" }, findings.map((each) => finding(each, data, select))),
    losses(data),
  );
}

function finding({ finding: found, sample, samples }, data, select) {
  const several = data.samples.length > 1;
  const figures = found.evidence.map(([name, value]) => figure(name, value));
  return h(
    "li",
    { class: found.remark ? "remark" : "finding" },
    h(
      "p",
      { class: "share", title: "of the window, of the thread that it hit worst" },
      h("b", {}, percent(found.share, 1, found.share >= 0.1 ? 0 : 1)),
      h("span", {}, " %"),
    ),
    h(
      "div",
      {},
      h(
        "p",
        { class: "kind" },
        h("span", { class: "rule" }, found.remark ? `Remark: ${found.rule}` : found.rule),
        h("span", { class: "who" }, WHO[found.who] ?? found.who),
        several
          ? h(
              "button",
              { class: "quiet", type: "button", disabled: !data.samples[sample], onclick: () => select(sample) },
              `worst in sample ${sample + 1}; in ${count(samples)} of ${count(data.samples_measured)}`,
            )
          : null,
      ),
      h("p", { class: "text" }, found.text.replaceAll(" %", "\u00a0%")),
      found.advice ? h("p", { class: "advice" }, h("b", {}, "What to do: "), found.advice) : null,
      figures.length
        ? h("details", { class: "evidence" }, h("summary", {}, "Evidence"), h("dl", {}, figures))
        : null,
    ),
  );
}

const WHO = {
  program: "the program’s doing",
  "other process": "another process’s doing",
  kernel: "the kernel’s or a device’s doing",
  limit: "a limit’s doing",
  hypervisor: "the hypervisor’s doing",
  person: "somebody’s doing",
  tool: "kernel-delay’s own doing",
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
    h("ul", {}, lines.map((line) => h("li", {}, line))),
  );
}

export function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function sampleName(data, place) {
  const sample = data.samples[place];
  return `Sample ${place + 1}, at ${fixed(sample.since_ns / 1e9, 3)} s`;
}
