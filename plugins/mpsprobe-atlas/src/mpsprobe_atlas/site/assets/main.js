// Views follow the address; the three lists on top change it.
const sections = [...document.querySelectorAll("section.view")];
const lists = { release: document.getElementById("release"), setting: document.getElementById("setting"), machine: document.getElementById("machine") };
const answer = document.getElementById("answer");
const DRAW = { models: showModels, map: showMap, ranking: showRanking, releases: showReleases, model: showModel, operator: showOperator };

function headline(view, what) {
  if (view === "model" || view === "operator") return what;
  const [clean, blocked, whole] = index.gained[chosen.setting][chosen.release];
  return "On torch " + index.releases[chosen.release] + ", " + NUMBERS.format(clean) + " of " + plural(whole, "architecture") + (whole === 1 ? " runs" : " run") + " entirely on the GPU; " + NUMBERS.format(blocked) + (blocked === 1 ? " is" : " are") + " blocked.";
}

function follow() {
  const { view, what, query } = place();
  const current = sections.find((one) => one.id === view) || sections[0];
  choose(query);
  lists.release.value = chosen.release;
  lists.setting.value = chosen.setting;
  lists.machine.value = chosen.machine;
  for (const section of sections) section.classList.toggle("current", section === current);
  for (const one of document.querySelectorAll("nav a[data-view]")) {
    one.href = address(one.dataset.view);
    if (one.dataset.view === current.id) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  answer.textContent = headline(current.id, what);
  document.title = (what || current.querySelector("h2").textContent) + " \u00b7 mpsprobe atlas";
  const body = current.querySelector(".body");
  const drawn = DRAW[current.id](body, what);
  if (drawn) drawn.catch(() => body.replaceChildren(nothing("A file of this site is missing or damaged: make the site again.")));
}

function filled(list, options) {
  list.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
  list.addEventListener("change", () => {
    chosen[list.name] = Number(list.value);
    const { view, what } = place();
    location.hash = address(view || sections[0].id, what);
  });
}

addEventListener("hashchange", () => { follow(); scrollTo(0, 0); });
document.querySelector(".choices").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  event.preventDefault();
  if (place().view && place().view !== "models") location.hash = address("models");
  setTimeout(() => document.getElementById("search").focus());
});
answer.textContent = "\u2026";
load("index").then((data) => {
  index = data;
  filled(lists.release, index.releases.map((one, at) => [at, one]));
  filled(lists.setting, index.settings.map((_, at) => [at, settingName(at)]));
  filled(lists.machine, [[-1, "any Mac"], ...index.machines.map((one, at) => [at, one[0]])]);
  const versions = Object.entries(index.versions).map(([name, version]) => name + " " + version).join(", ");
  document.getElementById("made").textContent = "Predicted from the kernels of each release, not run on a Mac; " + index.made.slice(0, 10) + ", " + versions + ".";
  follow();
}, () => { answer.textContent = "The file data/index.js of this site is missing or damaged: make the site again."; });
