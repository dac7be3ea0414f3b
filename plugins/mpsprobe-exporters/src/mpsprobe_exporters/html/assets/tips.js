// What a plot says about a place: the one under the pointer, or the one that the arrow keys chose.
function tipping(plot) {
  const tips = JSON.parse(plot.dataset.tips);
  const figure = plot.closest("figure");
  const tip = make("div", { class: "tip", role: "status", hidden: true });
  const cursor = drawn("line", { class: "cursor", y1: "0", y2: "100%", visibility: "hidden" });
  let shown = -1;
  plot.append(cursor);
  plot.setAttribute("tabindex", "0");
  figure.append(tip);

  function show(index) {
    shown = Math.max(0, Math.min(tips.length - 1, index));
    const [place, said] = tips[shown];
    const box = plot.getBoundingClientRect();
    tip.textContent = said;
    tip.hidden = false;
    const wide = tip.offsetWidth, left = box.left - figure.getBoundingClientRect().left;
    tip.style.left = Math.max(0, Math.min(figure.clientWidth - wide, left + place * box.width - wide / 2)) + "px";
    tip.style.top = box.top - figure.getBoundingClientRect().top - tip.offsetHeight - 4 + "px";
    cursor.setAttribute("x1", 100 * place + "%");
    cursor.setAttribute("x2", 100 * place + "%");
    cursor.setAttribute("visibility", "visible");
  }

  function hide() {
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  }

  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    show(tips.reduce((best, [place], index) => (Math.abs(place - at) < Math.abs(tips[best][0] - at) ? index : best), 0));
  });
  plot.addEventListener("keydown", (event) => {
    const acts = { ArrowLeft: () => show(shown - 1), ArrowRight: () => show(shown + 1), Home: () => show(0), End: () => show(tips.length - 1), Escape: hide };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  });
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
}
