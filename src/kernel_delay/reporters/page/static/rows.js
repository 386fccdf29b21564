// A table of texts: sorted by any column, filtered, the first rows of it until more are asked for.

import { count } from "./format.js";
import { h, scroller } from "./dom.js";

const FEW_ROWS = 100;

export class Rows {
  constructor(table) {
    this.table = table;
    this.sort = { place: null, down: false };
    this.showAll = false;
    const label = `Filter: ${table.title}`;
    this.search = h("input", { type: "search", placeholder: "Filter", "aria-label": label, "data-search": true, oninput: () => this.draw() });
    this.found = h("p", { class: "found", "aria-live": "polite" });
    this.headings = h("tr");
    this.body = h("tbody");
    this.element = h(
      "section",
      { id: table.id, "aria-labelledby": `${table.id}-title` },
      h("div", { class: "heading" }, h("h2", { id: `${table.id}-title` }, table.title), this.found, this.search),
      scroller(table.title, h("table", { class: "threads figures" }, h("thead", {}, this.headings), this.body)),
    );
    this.draw();
  }

  draw() {
    const { headings, rows, left_out: leftOut } = this.table;
    this.headings.replaceChildren(...headings.map((title, place) => this.heading(title, place)));
    const words = this.search.value.toLowerCase().split(/\s+/);
    const wanted = this.sorted(rows.filter((row) => words.every((word) => row.join(" ").toLowerCase().includes(word))));
    const shown = this.showAll ? wanted : wanted.slice(0, FEW_ROWS);
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    if (wanted.length > shown.length) this.body.append(this.moreRow(wanted.length - shown.length));
    this.found.textContent = `${count(wanted.length)} of ${count(rows.length)}${leftOut ? `; ${count(leftOut)} more are left out` : ""}`;
  }

  // As they come: what matters most first.
  sorted(rows) {
    const { place, down } = this.sort;
    if (place === null) return rows;
    const sign = down ? -1 : 1;
    return [...rows].sort((a, b) => sign * a[place].localeCompare(b[place], "en", { numeric: true }));
  }

  heading(title, place) {
    const active = this.sort.place === place;
    const act = () => {
      const text = this.table.texts.includes(place);
      this.sort = { place, down: active ? !this.sort.down : !text };
      this.draw();
      this.headings.querySelector(`[data-place="${place}"]`).focus();
    };
    return h(
      "th",
      { scope: "col", class: this.table.texts.includes(place) ? "c-name" : null, "aria-sort": active ? (this.sort.down ? "descending" : "ascending") : null },
      h("button", { type: "button", "data-place": String(place), onclick: act }, title),
    );
  }

  row(cells) {
    return h(
      "tr",
      { class: "figure" },
      cells.map((cell, place) => h("td", { class: this.table.texts.includes(place) ? "c-name" : "number" }, cell)),
    );
  }

  moreRow(more) {
    const act = () => {
      this.showAll = true;
      this.draw();
    };
    const button = h("button", { class: "quiet", type: "button", onclick: act }, `${count(more)} more`);
    return h("tr", { class: "more-threads" }, h("td", { colspan: this.table.headings.length }, button));
  }
}
