// The choice of light or dark, which a browser remembers, and how high the bar on top is.
const themes = ["auto", "light", "dark"];
const theme = document.getElementById("theme");
function dress(name) {
  const known = themes.includes(name) ? name : "auto";
  if (known === "auto") delete root.dataset.theme;
  else root.dataset.theme = known;
  theme.textContent = "\u25d0 " + known;
  theme.setAttribute("aria-label", "Colours: " + known);
  theme.title = "Colours: " + known;
  document.dispatchEvent(new Event("theme"));
}
theme.hidden = false;
theme.addEventListener("click", () => {
  const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
  remembered("mpsprobe-theme", next);
  dress(next);
});
dress(remembered("mpsprobe-theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
// What sticks below the bar has to know how high it is; on a narrow screen it does not stick itself.
const bar = document.querySelector(".top");
new ResizeObserver(() => {
  const high = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
  root.style.setProperty("--bar", high + "px");
}).observe(bar);
