// Calls folded by the stacks they were made from, as a tree of functions.

import { byState, stateOf } from "./parts.js";
import { count, time } from "./format.js";

class Node {
  constructor(name, object, kind, parent) {
    this.name = name;
    this.object = object;
    this.kind = kind;
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : 0;
    this.value = 0;
    this.count = 0;
    this.children = new Map();
  }

  child(key, name, object, kind) {
    let found = this.children.get(key);
    if (!found) this.children.set(key, (found = new Node(name, object, kind, this)));
    return found;
  }

  add(value, count) {
    for (let node = this; node; node = node.parent) {
      node.value += value;
      node.count += count;
    }
  }
}

// Of the calls of some threads, or of all.
function callTree(calls, threads, weight) {
  const root = new Node("all", "", "root", null);
  const wanted = threads && new Set(threads.map(({ tid, name }) => `${tid} ${name}`));
  const shown = calls.threads.map(([tid, name]) => !wanted || wanted.has(`${tid} ${name}`));
  const { paths } = calls;
  paths.threads.forEach((thread, place) => {
    const value = weight(place);
    if (!shown[thread] || !value) return;
    const threadName = calls.threads[thread][1];
    let node = root.child(threadName, threadName, "", "thread");
    for (const frame of calls.stacks[paths.stacks[place]] ?? []) {
      const [name, object] = calls.frames[frame];
      node = node.child(frame, name, object, "user");
    }
    const name = calls.calls[paths.calls[place]];
    node.child(`call ${name}`, name, "", "call").add(value, paths.counts[place]);
  });
  return laidOut(root);
}

// What can be shown of calls: all of their time or, where it is known, that on a CPU or off it.
// An event loop spends nearly all of its time in a poll: polls have a choice of their own, the last.
export function callModes(calls) {
  const { ns, off_cpu_ns: off, unknown_ns: unknown, counts } = calls.paths;
  const isPoll = calls.paths.calls.map((call) => calls.polls.includes(call));
  const sum = (values, wanted) => values.reduce((whole, each, place) => whole + (wanted(place) ? each : 0), 0);
  const all = (place) => ns[place];
  const polls = sum(counts, (place) => isPoll[place]);
  const pollsOut = polls ? `${count(polls)} polls, of ${time(sum(ns, (place) => isPoll[place]))}, are left out. ` : "";
  const missing = sum(unknown, (place) => !isPoll[place]);
  const unknownOut = missing ? `Of ${time(missing)} in calls it is not known how much was on a CPU; they are left out.` : "";
  const modes = [];
  const add = (name, weight, note) => modes.push({ name, note, tree: (threads) => callTree(calls, threads, weight) });
  const withoutPolls = (weight) => (place) => (isPoll[place] ? 0 : weight(place));
  if (isPoll.some((each) => !each)) {
    add("Time in calls", withoutPolls(all), pollsOut);
    if (ns.some((_, place) => !isPoll[place] && ns[place] > unknown[place])) {
      add("Time in calls, on CPU", withoutPolls((place) => ns[place] - off[place] - unknown[place]), pollsOut + unknownOut);
      add("Time in calls, off CPU", withoutPolls((place) => off[place]), pollsOut + unknownOut);
    }
  }
  if (polls) add("Time in calls and polls", all, "");
  return modes;
}

// Where the account says that threads were on a CPU. A call's time there has the interrupts in it.
export function onCpuTree(threads, parts) {
  const root = new Node("all", "", "root", null);
  for (const thread of accounted(threads)) {
    const node = root.child(thread.name, thread.name, "", "thread");
    let left = -addCalls(node, thread);
    thread.time_ns.forEach((ns, place) => {
      const name = parts[place];
      if (name === "user") addRest(node, name, ns, "user");
      else if (["kernel, page faults", "kernel-delay"].includes(name)) addRest(node, name, ns);
      else if (["kernel", "guest", "irq"].includes(stateOf(name))) left += ns;
    });
    addRest(node, "kernel and interrupts, outside of calls", left);
  }
  return laidOut(root);
}

// Where it says that they were off it; asleep, by the kernel's functions where these are known.
export function offCpuTree(threads, parts) {
  const root = new Node("all", "", "root", null);
  for (const thread of accounted(threads)) {
    const node = root.child(thread.name, thread.name, "", "thread");
    const left = byState(parts, thread.time_ns);
    for (const call of thread.calls) {
      const [, ready, blocked, stopped] = call.split_ns ?? [0, 0, 0, 0];
      const inCall = () => node.child(`call ${call.name}`, call.name, "", "call");
      const asleep = addSleeps(thread, call.name, inCall, blocked);
      addRest(inCall, "ready", ready);
      addRest(inCall, "blocked", blocked - asleep);
      addRest(inCall, "stopped", stopped);
      left.ready -= ready;
      left.blocked -= blocked;
      left.stopped -= stopped;
    }
    left.blocked -= addSleeps(thread, null, () => node, left.blocked);
    for (const state of ["ready", "blocked", "stopped", "throttled", "frozen"])
      addRest(node, `${state}, outside of calls`, left[state]);
  }
  return laidOut(root);
}

// Threads whose time is known, and that stand for themselves.
function accounted(threads) {
  return threads.filter((thread) => thread.time_ns);
}

function addCalls(node, thread) {
  let sum = 0;
  for (const call of thread.calls) {
    const [ns] = call.split_ns ?? [0];
    sum += ns;
    if (ns > 0) node.child(`call ${call.name}`, call.name, "", "call").add(ns, call.lengths.count);
  }
  return sum;
}

function addRest(parent, name, ns, kind = "kernel") {
  if (ns <= 0) return;
  const node = parent instanceof Node ? parent : parent();
  node.child(name, name, "", kind).add(ns, 0);
}

// Adds a thread's sleeps in a call, or outside of any. Their times are estimates in part, and the
// account's is not: they are scaled to fit in it. Returns how much they are.
function addSleeps(thread, call, parent, roomNs) {
  const placed = thread.sleeps.filter((sleep) => sleep.call === call && sleep.ns && sleep.stack.length);
  const whole = placed.reduce((sum, sleep) => sum + sleep.ns, 0);
  const scale = whole > roomNs ? Math.max(roomNs, 0) / whole : 1;
  let sum = 0;
  for (const sleep of placed) {
    const ns = Math.floor(sleep.ns * scale);
    if (!ns) continue;
    sum += ns;
    let node = parent();
    for (const name of [...sleep.stack].reverse()) node = node.child(name, name, "kernel", "kernel");
    node.child("asleep", `asleep: ${sleep.reason}`, "", "kernel").add(ns, sleep.count);
  }
  return sum;
}

// Gives each node its place, from 0 to 1, its siblings in the order of their names.
function laidOut(root) {
  const order = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  const place = (node, x) => {
    node.x = x;
    node.width = root.value ? node.value / root.value : 0;
    node.sorted = [...node.children.values()].sort(order);
    for (const child of node.sorted) {
      place(child, x);
      x += child.width;
    }
  };
  place(root, 0);
  return root;
}

// The nodes whose name or object has the text, and their time, that of one below another once.
export function matches(root, text) {
  const found = new Set();
  let value = 0;
  const look = (node, counted) => {
    const hit = node.kind !== "root" && `${node.name} ${node.object}`.toLowerCase().includes(text);
    if (hit) found.add(node);
    if (hit && !counted) value += node.value;
    for (const child of node.sorted) look(child, counted || hit);
  };
  look(root, false);
  return { found, value };
}
