// A flame graph, its root on top: to be zoomed, searched, and walked with the keyboard.

import { count, percent, time } from "./format.js";
import { h, redraw, svg } from "./dom.js";
import { matches } from "./tree.js";

const ROW = 19;
const CHARACTER = 6.65;
const LEAST = 0.6;
const SHADES = 4;

export class Flame {
  // `controls` stand before the search.
  constructor(controls) {
    this.status = h("p", { class: "status", "aria-live": "polite" });
    this.search = h("input", {
      type: "search",
      placeholder: "Search functions",
      "aria-label": "Search functions",
      oninput: () => this.find(this.search.value),
    });
    this.result = h("span", { class: "note", "aria-live": "polite" });
    this.reset = h("button", { type: "button", onclick: () => this.zoom(this.root) }, "Reset zoom");
    this.picture = svg("svg", {
      class: "flame",
      tabindex: "0",
      role: "img",
      "aria-label": "Flame graph. Arrow keys move, Enter zooms in, Escape zooms out.",
    });
    this.holder = h("div", { class: "flame-holder" }, this.picture);
    this.element = h(
      "div",
      { class: "flame-graph" },
      h("div", { class: "tools" }, controls, this.result, this.search, this.reset),
      this.holder,
      this.status,
    );
    this.picture.addEventListener("click", (event) => {
      const node = this.nodes.get(event.target.closest("g"));
      if (node) this.zoom(node);
    });
    this.picture.addEventListener("mouseover", (event) => this.say(this.nodes.get(event.target.closest("g"))));
    this.picture.addEventListener("mouseleave", () => this.say(this.cursor));
    this.picture.addEventListener("keydown", (event) => this.key(event));
    redraw(this.holder, () => this.draw());
  }

  // `what` the widths are, for those who read it, and a `note` on what is not shown.
  show(root, what, note = "") {
    this.note = note;
    this.root = this.zoomed = this.cursor = root;
    this.what = what;
    this.find(this.search.value);
  }

  zoom(node) {
    this.zoomed = this.cursor = node;
    this.draw();
    this.say(node);
  }

  find(text) {
    this.text = text.trim().toLowerCase();
    this.found = this.text ? matches(this.root, this.text) : { found: new Set(), value: 0 };
    const { found, value } = this.found;
    const share = percent(value, this.root.value);
    this.result.textContent = this.text ? `${count(found.size)} found, in ${time(value)}, ${share} %` : "";
    this.draw();
    this.say(null);
  }

  draw() {
    const width = this.holder.clientWidth;
    if (!width || !this.root) return;
    const { x, width: share } = this.zoomed;
    const scale = share ? width / share : 0;
    this.nodes = new Map();
    this.groups = new Map();
    let deepest = 0;
    const drawn = [];
    const put = (node, left, wide) => {
      deepest = Math.max(deepest, node.depth);
      const group = this.frame(node, left, wide);
      this.nodes.set(group, node);
      this.groups.set(node, group);
      drawn.push(group);
    };
    for (let node = this.zoomed.parent; node; node = node.parent) put(node, 0, width);
    const below = (node) => {
      const wide = node.width * scale;
      if (wide < LEAST) return;
      put(node, (node.x - x) * scale, wide);
      node.sorted.forEach(below);
    };
    below(this.zoomed);
    const height = (deepest + 1) * ROW;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.setAttribute("height", height);
    this.picture.replaceChildren(...drawn);
    this.reset.disabled = this.zoomed === this.root;
  }

  frame(node, left, wide) {
    const shown = Math.floor((wide - 8) / CHARACTER);
    const name = node.kind === "root" ? this.what : node.name;
    const short = name.length <= shown ? name : shown > 2 ? `${name.slice(0, shown - 1)}…` : "";
    const css = [`f-${node.kind}${node.kind === "user" ? shade(node.object) : ""}`];
    if (this.found.found.has(node)) css.push("found");
    if (isAbove(node, this.zoomed)) css.push("above");
    if (node === this.cursor) css.push("cursor");
    return svg(
      "g",
      { class: css.join(" "), transform: `translate(${left.toFixed(2)} ${node.depth * ROW})` },
      svg("title", {}, this.sentence(node)),
      svg("rect", { width: Math.max(wide - 0.6, 0.4).toFixed(2), height: ROW - 1 }),
      short ? svg("text", { x: 4, y: ROW - 6 }, short) : null,
    );
  }

  sentence(node) {
    const where = node.object && !node.name.startsWith("[") ? ` (${node.object})` : "";
    const name = node.kind === "root" ? this.what : `${node.name}${where}`;
    const share = node === this.root ? "" : `, ${percent(node.value, this.root.value, 2)} %`;
    const times = node.count ? `, ${count(node.count)} times` : "";
    return `${name}: ${time(node.value)}${share}${times}`;
  }

  say(node) {
    this.status.textContent = node ? this.sentence(node) : this.note || "\u00a0";
  }

  key(event) {
    const { cursor } = this;
    const siblings = cursor.parent?.sorted ?? [cursor];
    const place = siblings.indexOf(cursor);
    const widest = (nodes) => nodes.reduce((a, b) => (b.value > (a?.value ?? -1) ? b : a), null);
    let to = null;
    if (event.key === "ArrowDown") to = widest(cursor.sorted);
    else if (event.key === "ArrowUp") to = cursor.parent;
    else if (event.key === "ArrowRight") to = siblings[place + 1];
    else if (event.key === "ArrowLeft") to = siblings[place - 1];
    else if (event.key === "Enter" || event.key === " ") this.zoom(cursor);
    else if (event.key === "Escape") this.zoom(this.zoomed.parent ?? this.root);
    else return;
    event.preventDefault();
    if (!to) return;
    // What isn't drawn is not walked to, but what is above the zoom is.
    if (!this.groups.has(to)) return;
    this.groups.get(cursor)?.classList.remove("cursor");
    this.cursor = to;
    this.groups.get(to).classList.add("cursor");
    this.say(to);
  }
}

function isAbove(node, zoomed) {
  for (let each = zoomed.parent; each; each = each.parent) if (each === node) return true;
  return false;
}

// Functions of one object have one shade.
function shade(object) {
  let sum = 0;
  for (const character of object) sum = (sum * 31 + character.codePointAt(0)) % 997;
  return sum % SHADES;
}
