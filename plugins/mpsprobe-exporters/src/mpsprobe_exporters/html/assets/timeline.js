// The time line of one step: what is on it, where one looks, and what keys and pointer do. drawing.js paints it.
const COLORS = { step: 8, phase: 7, module: 5, operator: 2, launch: 6, kernel: 1, copy: 3, fallback: 4, other: 9 };
const MOST_ROWS = 60; // of one track; what nests deeper is drawn on the last
const NEAREST = 50; // ns over the whole width: closer, nothing is to be seen

function timeline(box) {
  const model = decoded(JSON.parse(box.querySelector("script").textContent));
  const canvas = make("canvas", { tabindex: "0", role: "application", "aria-label": described(model) });
  const tip = make("div", { class: "tip", hidden: true });
  const said = make("div", { class: "said", role: "status" });
  const frame = make("div", { class: "chart" }, canvas, tip);
  const line = { model, canvas, from: 0, to: model.length, hovered: -1, selected: -1, found: null, palette: null };
  const legend = legendOf(model);
  box.append(controls(line, said), frame, said, legend);
  line.repaint = () => requestAnimationFrame(() => paint(line));
  line.dress = () => { line.palette = paletteOf(legend); line.repaint(); };
  line.tell = () => said.replaceChildren(...detailOf(line));
  pointing(line, tip, frame);
  keys(line);
  new ResizeObserver(line.repaint).observe(canvas);
  document.addEventListener("theme", line.dress);
  line.dress();
  line.tell();
}

// Events in columns with absolute starts, the row of each, and the tracks with what they hold.
function decoded(data) {
  const count = data.s.length;
  const start = new Float64Array(count), row = new Int32Array(count);
  let at = 0;
  for (let index = 0; index < count; index++) { at += data.s[index]; start[index] = at; }
  const order = [...start.keys()].sort((a, b) => start[a] - start[b] || data.l[b] - data.l[a]);
  const open = data.tracks.map(() => []); // ends of the events that are still running, by track
  const tracks = data.tracks.map((track) => ({ ...track, rows: [] }));
  for (const index of order) {
    const ends = open[data.t[index]];
    while (ends.length && ends[ends.length - 1] <= start[index]) ends.pop();
    row[index] = Math.min(ends.length, MOST_ROWS - 1);
    ends.push(start[index] + data.l[index]);
    const rows = tracks[data.t[index]].rows;
    (rows[row[index]] = rows[row[index]] || []).push(index);
  }
  const flows = new Map();
  data.f.forEach((flow, index) => { if (flow) flows.set(flow, [...(flows.get(flow) || []), index]); });
  return { ...data, start, row, flows, tracks: tracks.filter((track) => track.rows.length).sort((a, b) => (a.kind === "device") - (b.kind === "device")) };
}

function described(model) {
  return "Time line of " + model.start.length + " events on " + model.tracks.length + " tracks, " + inWords(model.length) +
    ". Arrow keys move, plus and minus zoom, n and p go from event to event.";
}

function categoryOf(model, index) {
  return model.categories[model.names[model.n[index]][1]];
}

function legendOf(model) {
  const used = new Set(model.names.map(([, category]) => model.categories[category]));
  const list = make("ul", { class: "legend" });
  for (const name of model.categories.filter((one) => used.has(one))) {
    const sample = drawn("svg", {});
    sample.append(drawn("rect", { width: "100%", height: "100%", class: "f" + COLORS[name] }));
    list.append(make("li", { "data-category": name }, sample, name));
  }
  return list;
}

function controls(line, said) {
  const button = (text, act) => {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", act);
    return made;
  };
  const input = make("input", { type: "search", placeholder: "Find events", "aria-label": "Find events" });
  const count = make("span", { class: "quiet", role: "status" });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    const names = line.model.names.map(([name]) => name.toLowerCase().includes(wanted));
    line.found = wanted ? Array.from(line.model.n, (name) => names[name]) : null;
    const hits = line.found ? line.found.filter(Boolean).length : 0;
    count.textContent = wanted ? hits + (hits === 1 ? " event" : " events") : "";
    line.repaint();
  });
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") step(line, 1, (index) => !line.found || line.found[index]); });
  const hint = make("span", { class: "quiet" }, "Drag to move, Ctrl or \u2318 and the wheel (or + and \u2212) to zoom, double-click to zoom to an event.");
  return make("div", { class: "filter" }, input, count, button("+", () => zoom(line, 0.5)), button("\u2212", () => zoom(line, 2)),
    button("Whole step", () => look(line, 0, line.model.length)), hint);
}

function look(line, from, to) {
  const length = line.model.length || 1;
  const width = Math.min(length, Math.max(Math.min(NEAREST, length), to - from));
  line.from = Math.min(length - width, Math.max(0, from));
  line.to = line.from + width;
  line.repaint();
}

function zoom(line, factor, place) {
  const at = place === undefined ? (line.from + line.to) / 2 : place;
  look(line, at - (at - line.from) * factor, at + (line.to - at) * factor);
}

// To the next event (or the one before) for which `wanted` is true, in the order of their starts.
function step(line, direction, wanted) {
  const { start, l } = line.model;
  const count = start.length;
  for (let index = line.selected + direction; index >= 0 && index < count; index += direction) {
    if (!wanted(index)) continue;
    line.selected = index;
    const narrow = (l[index] / (line.to - line.from)) * line.canvas.clientWidth < 4; // too narrow to be seen
    if (narrow || start[index] < line.from || start[index] + l[index] > line.to) {
      const width = narrow ? l[index] * 40 : Math.max(line.to - line.from, l[index] * 1.2);
      look(line, start[index] + l[index] / 2 - width / 2, start[index] + l[index] / 2 + width / 2);
    }
    line.tell();
    return line.repaint();
  }
  line.selected = -1; // past the end: the next one begins anew
  line.tell();
  line.repaint();
}

function keys(line) {
  line.canvas.addEventListener("keydown", (event) => {
    const width = line.to - line.from;
    const sameRow = (index) => line.selected < 0 || (line.model.row[index] === line.model.row[line.selected] && line.model.t[index] === line.model.t[line.selected]);
    const acts = {
      ArrowLeft: () => look(line, line.from - width / 10, line.to - width / 10),
      ArrowRight: () => look(line, line.from + width / 10, line.to + width / 10),
      a: () => look(line, line.from - width / 10, line.to - width / 10),
      d: () => look(line, line.from + width / 10, line.to + width / 10),
      "+": () => zoom(line, 0.5), "=": () => zoom(line, 0.5), w: () => zoom(line, 0.5),
      "-": () => zoom(line, 2), s: () => zoom(line, 2),
      Home: () => look(line, 0, line.model.length), 0: () => look(line, 0, line.model.length),
      n: () => step(line, 1, sameRow), p: () => step(line, -1, sameRow),
      Enter: () => toEvent(line, line.selected),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  });
}

function toEvent(line, index) {
  if (index < 0) return;
  const start = line.model.start[index], spent = line.model.l[index];
  look(line, start - spent * 0.1, start + spent * 1.1);
}

function pointing(line, tip, frame) {
  const { canvas } = line;
  let dragged = null;
  const timeAt = (x) => line.from + (x / canvas.clientWidth) * (line.to - line.from);
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, from: line.from, to: line.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    if (dragged && event.buttons) {
      const by = ((event.clientX - dragged.x) / box.width) * (dragged.to - dragged.from);
      dragged.moved = dragged.moved || Math.abs(event.clientX - dragged.x) > 3;
      if (dragged.moved) { tip.hidden = true; return look(line, dragged.from - by, dragged.to - by); }
    }
    const index = hit(line, event.clientX - box.left, event.clientY - box.top);
    if (index !== line.hovered) { line.hovered = index; line.repaint(); }
    tip.hidden = index < 0;
    if (index < 0) return;
    tip.textContent = line.model.names[line.model.n[index]][0] + " \u00b7 " + inWords(line.model.l[index]);
    tip.style.left = Math.max(0, Math.min(frame.clientWidth - tip.offsetWidth, event.clientX - box.left + 12)) + "px";
    tip.style.top = event.clientY - box.top + 18 + "px";
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved) {
      const box = canvas.getBoundingClientRect();
      line.selected = hit(line, event.clientX - box.left, event.clientY - box.top);
      line.tell();
      line.repaint();
    }
    dragged = null;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; line.hovered = -1; line.repaint(); });
  canvas.addEventListener("dblclick", () => (line.selected < 0 ? look(line, 0, line.model.length) : toEvent(line, line.selected)));
  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !sideways) return; // the page scrolls
    event.preventDefault();
    const by = (event.deltaX / canvas.clientWidth) * (line.to - line.from);
    if (sideways) look(line, line.from + by, line.to + by);
    else zoom(line, Math.exp(Math.max(-1, Math.min(1, event.deltaY * 0.01))), timeAt(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
}

function detailOf(line) {
  const { model, selected } = line;
  if (selected < 0) return [make("span", { class: "quiet" }, "Select an event to see what is known of it.")];
  const parts = [make("b", {}, model.names[model.n[selected]][0])];
  const facts = [categoryOf(model, selected), inWords(model.l[selected]), "at " + inWords(model.start[selected])];
  if (model.d[selected] >= 0) for (const [key, value] of model.details[model.d[selected]]) facts.push(key + " " + value);
  const linked = model.f[selected] ? model.flows.get(model.f[selected]).filter((one) => one !== selected) : [];
  for (const one of linked.slice(0, 3)) facts.push("joined to " + model.names[model.n[one]][0] + " (" + inWords(model.l[one]) + ")");
  return [...parts, make("br"), facts.join(" \u00b7 ")];
}
