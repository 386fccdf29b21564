// Elements, made of names and text alone: nothing of the data is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return element;
}

// What is scrolled sideways where it has no room, then by the keyboard too.
export function scroller(label, ...content) {
  const element = h("div", { class: "scroll" }, content);
  const observer = new ResizeObserver(() => {
    const scrolls = element.scrollWidth > element.clientWidth;
    for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": label }))
      if (scrolls) element.setAttribute(name, value);
      else element.removeAttribute(name);
  });
  for (const each of [element, ...element.children]) observer.observe(each);
  return element;
}

// A colour of page.css, as the browser has it now: light or dark.
export function color(name) {
  const probe = h("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// Calls `draw` when the element's width changes, the colours do, and before and after printing.
export function redraw(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    draw();
  }).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("colorschemechange", draw);
}
