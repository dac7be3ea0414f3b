// Paints the time line: an axis, tracks with their rows, curves of counters, and lines from launches to kernels.
const ROW = 18, HEAD = 22, AXIS = 26, CURVE = 46, GAP = 8;

function paletteOf(legend) {
  const palette = { widths: new Map() };
  for (const item of legend.children) {
    const color = getComputedStyle(item.querySelector("rect")).fill;
    const [r, g, b] = (color.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
    palette[item.dataset.category] = { color, ink: 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171b" : "#ffffff" };
  }
  const style = getComputedStyle(document.body);
  palette.ink = style.color;
  palette.font = style.fontFamily;
  palette.soft = getComputedStyle(legend).color;
  return palette;
}

// Where each track and counter begins, from the top; and how high it is together.
function arranged(model) {
  let y = AXIS;
  for (const track of model.tracks) {
    track.y = y + HEAD;
    y = track.y + track.rows.length * ROW + GAP;
  }
  model.curves = model.counters.filter((one) => one.t.length).map((one) => {
    y += HEAD + CURVE + GAP;
    return { ...one, y: y - CURVE - GAP };
  });
  return y;
}

function paint(line) {
  const { canvas, model, palette } = line;
  const width = canvas.clientWidth, height = arranged(model), scale = devicePixelRatio || 1;
  if (!width || !palette) return;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = height + "px";
  const to = canvas.getContext("2d");
  to.scale(scale, scale);
  to.textBaseline = "middle";
  const x = (time) => ((time - line.from) / (line.to - line.from || 1)) * width;
  paintAxis(to, line, x, width, height);
  for (const track of model.tracks) {
    words(to, palette, track.name + (track.kind === "device" ? " \u00b7 device" : " \u00b7 host"), track.y - HEAD / 2 + 1);
    track.rows.forEach((events, row) => paintRow(to, line, events, track.y + row * ROW, x, width));
  }
  for (const curve of model.curves) paintCurve(to, line, curve, x, width);
  for (const index of [line.hovered, line.selected]) if (index >= 0) paintFlow(to, line, index, x);
}

function words(to, palette, text, y) {
  to.font = "600 12px " + palette.font;
  to.fillStyle = palette.soft;
  to.textAlign = "left";
  to.fillText(text, 6, y);
}

function paintAxis(to, line, x, width, height) {
  const span = line.to - line.from || 1;
  const power = 10 ** Math.floor(Math.log10((span / width) * 110));
  const each = [1, 2, 5, 10].map((factor) => factor * power).find((one) => (one / span) * width >= 90) || 10 * power;
  to.font = "12px " + line.palette.font;
  to.textAlign = "left";
  const unit = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]].find(([size]) => line.to >= size) || [1, "ns"];
  for (let time = Math.ceil(line.from / each) * each; time <= line.to; time += each) {
    const at = Math.round(x(time)) + 0.5;
    to.globalAlpha = 0.16;
    to.strokeStyle = line.palette.soft;
    to.beginPath();
    to.moveTo(at, 0);
    to.lineTo(at, height);
    to.stroke();
    to.globalAlpha = 1;
    to.fillStyle = line.palette.soft;
    if (at < width - 36) to.fillText(Number((time / unit[0]).toPrecision(10)) + " " + unit[1], at + 4, AXIS / 2);
  }
}

function paintRow(to, line, events, y, x, width) {
  const { model, palette } = line;
  let covered = -1; // the last pixel that is painted: events narrower than one share it
  for (let at = firstVisible(model, events, line.from); at < events.length; at++) {
    const index = events[at];
    const left = Math.max(-2, x(model.start[index])), right = Math.min(width + 2, x(model.start[index] + model.l[index]));
    if (left > width) break;
    if (right <= covered) continue;
    const wide = Math.max(1, right - left);
    covered = left + wide;
    const style = palette[categoryOf(model, index)];
    to.globalAlpha = line.found && !line.found[index] ? 0.18 : 1;
    to.fillStyle = style.color;
    to.fillRect(left, y + 1, wide > 3 ? wide - 0.6 : wide, ROW - 2);
    if (index === line.selected || index === line.hovered) {
      to.strokeStyle = palette.ink;
      to.lineWidth = 2;
      to.strokeRect(left + 1, y + 2, Math.max(1, wide - 2), ROW - 4);
      to.lineWidth = 1;
    }
    if (wide > 26) label(to, palette, model.names[model.n[index]][0], Math.max(left, 0), right, y, style.ink);
  }
  to.globalAlpha = 1;
}

function label(to, palette, text, left, right, y, ink) {
  to.font = "11px " + palette.font;
  to.fillStyle = ink;
  to.textAlign = "left";
  const room = Math.min(right, to.canvas.clientWidth) - left - 8;
  if (!palette.widths.has(text)) palette.widths.set(text, to.measureText(text).width);
  const wide = palette.widths.get(text);
  const most = Math.floor((text.length * room) / wide);
  if (most < 3) return;
  to.fillText(wide > room ? text.slice(0, most - 1) + "\u2026" : text, left + 4, y + ROW / 2 + 0.5);
}

// Events of a row follow each other, so that their ends are in order too.
function firstVisible(model, events, from) {
  let low = 0, high = events.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (model.start[events[middle]] + model.l[events[middle]] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

function paintCurve(to, line, curve, x, width) {
  const most = Math.max(...curve.v, 0), top = most || 1;
  words(to, line.palette, curve.name + " \u00b7 up to " + amountOf(curve.name, most), curve.y - HEAD / 2);
  const y = (value) => curve.y + CURVE - (Math.max(0, value) / top) * CURVE;
  to.beginPath();
  to.moveTo(Math.max(-2, x(curve.t[0])), curve.y + CURVE);
  curve.t.forEach((time, index) => {
    const until = index + 1 < curve.t.length ? curve.t[index + 1] : line.model.length;
    to.lineTo(x(time), y(curve.v[index]));
    to.lineTo(x(until), y(curve.v[index]));
  });
  to.lineTo(Math.min(width + 2, x(line.model.length)), curve.y + CURVE);
  to.fillStyle = (line.palette.kernel || line.palette.operator || { color: line.palette.soft }).color;
  to.globalAlpha = 0.35;
  to.fill();
  to.globalAlpha = 1;
}

function amountOf(name, value) {
  const units = [[1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]];
  const [size, unit] = name.endsWith("bytes") ? units.find(([size]) => value >= size) || units[3] : [1, ""];
  return (value / size).toLocaleString("en", { maximumSignificantDigits: 3 }) + unit;
}

function middleOf(line, index, x) {
  const { model } = line;
  const track = model.tracks.find((one) => one.rows[model.row[index]] && one.rows[model.row[index]].includes(index));
  return track ? [x(model.start[index]), track.y + model.row[index] * ROW + ROW / 2] : null;
}

function paintFlow(to, line, index, x) {
  const { model } = line;
  if (!model.f[index]) return;
  const here = middleOf(line, index, x);
  for (const other of model.flows.get(model.f[index])) {
    const there = other === index ? null : middleOf(line, other, x);
    if (!here || !there) continue;
    to.strokeStyle = line.palette.ink;
    to.lineWidth = 1.5;
    to.beginPath();
    to.moveTo(...here);
    to.bezierCurveTo(here[0], (here[1] + there[1]) / 2, there[0], (here[1] + there[1]) / 2, ...there);
    to.stroke();
    to.lineWidth = 1;
  }
}

function hit(line, left, top) {
  const { model, canvas } = line;
  const time = line.from + (left / canvas.clientWidth) * (line.to - line.from);
  const slack = ((line.to - line.from) / canvas.clientWidth) * 2;
  for (const track of model.tracks) {
    const row = Math.floor((top - track.y) / ROW);
    const events = row >= 0 ? track.rows[row] : null;
    if (!events) continue;
    for (let at = Math.max(0, firstVisible(model, events, time - slack)); at < events.length; at++) {
      const start = model.start[events[at]];
      if (start > time + slack) break;
      if (start - slack <= time && time <= start + model.l[events[at]] + slack) return events[at];
    }
  }
  return -1;
}
