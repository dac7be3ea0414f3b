// What a plot says of the place under the pointer.
function tipping(plot) {
  const tips = JSON.parse(plot.dataset.tips);
  const figure = plot.closest("figure");
  const tip = make("div", { class: "tip", hidden: true });
  const cursor = drawn("line", { class: "cursor", y1: "0", y2: "100%", visibility: "hidden" });
  plot.append(cursor);
  figure.append(tip);

  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    const [place, said] = tips.reduce((one, other) => (Math.abs(other[0] - at) < Math.abs(one[0] - at) ? other : one));
    tip.textContent = said;
    tip.hidden = false;
    const wide = tip.offsetWidth, room = figure.clientWidth;
    tip.style.left = Math.max(0, Math.min(room - wide, place * box.width - wide / 2)) + "px";
    tip.style.top = box.top - figure.getBoundingClientRect().top - tip.offsetHeight - 4 + "px";
    cursor.setAttribute("x1", 100 * place + "%");
    cursor.setAttribute("x2", 100 * place + "%");
    cursor.setAttribute("visibility", "visible");
  });
  plot.addEventListener("pointerleave", () => {
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  });
}
