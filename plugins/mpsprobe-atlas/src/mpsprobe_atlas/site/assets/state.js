// What is chosen, which the address keeps, and the data: each file of it is a script that is loaded when it is needed.
const loaded = new Map(), waiting = new Map();
const WORDS = { n: "native", f: "fallback", m: "missing", u: "unsupported", k: "unknown", s: "stopped", x: "no answer", "-": "not asked" };
const SHADES = { n: "native", f: "fallback", m: "missing", u: "unsupported", k: "unknown", s: "unknown", x: "unknown", "-": "none" };
const BLOCKING = "mu";
const FITS = { f: "fits", p: "fits under memory pressure", r: "does not fit", u: "fits or not: the published figures disagree" };
const chosen = { release: 0, setting: 0, machine: -1 };
let index = null;

window.atlas = (name, data) => loaded.set(name, data);

function load(name) {
  if (!waiting.has(name)) {
    waiting.set(name, new Promise((done, failed) => {
      const script = make("script", { src: "data/" + name + ".js" });
      script.onload = () => (loaded.has(name) ? done(loaded.get(name)) : failed(new Error(name)));
      script.onerror = () => failed(new Error(name));
      document.head.append(script);
    }));
  }
  return waiting.get(name);
}

// "#model/hf:bert?torch=2.6.0&phase=training&mac=M2, 16 GB"
function place() {
  const [path, query] = decodeURI(location.hash.slice(1)).split("?");
  const [view, ...rest] = path.split("/");
  return { view, what: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query || "") };
}

function address(view, what) {
  const query = new URLSearchParams();
  if (chosen.release) query.set("torch", index.releases[chosen.release]);
  if (chosen.setting) query.set("phase", settingName(chosen.setting));
  if (chosen.machine >= 0) query.set("mac", index.machines[chosen.machine][0]);
  const words = query.toString();
  return "#" + view + (what ? "/" + encodeURIComponent(what) : "") + (words ? "?" + words : "");
}

function settingName(number) {
  const [size, phase, dtype] = index.settings[number];
  const same = (at) => index.settings.every((one) => one[at] === index.settings[0][at]);
  return [phase, same(2) ? "" : dtype, same(0) ? "" : size].filter(Boolean).join(", ");
}

function choose(query) {
  const at = (list, value) => Math.max(0, list.indexOf(value));
  chosen.release = at(index.releases, query.get("torch"));
  chosen.setting = at(index.settings.map((_, number) => settingName(number)), query.get("phase"));
  chosen.machine = index.machines.findIndex((one) => one[0] === query.get("mac"));
}

// The letter of a model on a release, the chosen one if none is said.
function stateOf(model, release = chosen.release) {
  const states = model[3][chosen.setting];
  return states ? states[release] : "-";
}

// The first release from which on, without a gap up to the newest, all is native.
function nativeSince(states) {
  if (!states || states[0] !== "n") return null;
  let last = 0;
  while (states[last + 1] === "n") last += 1;
  return index.releases[last];
}
