// Small things that the other parts use. Text goes into the page as text only, never as markup.
const root = document.documentElement;
root.classList.add("js");

function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function drawn(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Three digits, as the figures of the page: 1.23 s, 35.2 ms, 812 µs.
function inWords(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
  const [size, unit] = units.find(([size]) => Math.abs(ns) >= size) || units[3];
  const value = ns / size;
  return value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0) + " " + unit;
}

// A folder that is opened from a disk may have no storage.
function remembered(key, value) {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch (error) { /* then nothing is remembered */ }
  return null;
}
