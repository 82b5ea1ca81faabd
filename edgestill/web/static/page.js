// Keeps an open view up to date: the server says when something has changed, the middle of the page is fetched again.
"use strict";
(() => {
  const main = document.getElementById("main");
  const lost = document.getElementById("connection");
  const charts = new Map();
  let asked = false, again = false;

  function busy() {  // somebody types, or has opened a fold: nothing is taken away from under their hands
    const at = document.activeElement;
    return (at && main.contains(at) && ["INPUT", "SELECT", "TEXTAREA"].includes(at.tagName)) ||
      main.querySelector("details[open]") !== null;
  }

  function keyOf(at) {  // what has the focus, to find it again in the new middle
    if (!at || !main.contains(at)) return "";
    const form = at.closest("form"), field = (name) => form?.elements[name]?.value || "";
    return [at.tagName, at.getAttribute("href"), at.closest("details")?.id, form?.getAttribute("action"), field("on"), field("key")].join(" ");
  }

  async function refresh() {
    if (asked) { again = true; return; }
    if (document.hidden || busy()) return;
    asked = true;
    try {
      if (main.querySelector(".chart")) { await draw(); return; }
      const answer = await fetch(location.href, { headers: { "X-Fragment": "1" } });
      if (!answer.ok || answer.redirected) return;
      const text = await answer.text();
      if (busy() || text === refresh.last) return;
      refresh.last = text;
      const focused = keyOf(document.activeElement);
      const scrolled = [...main.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
      main.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
      main.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
      if (focused) [...main.querySelectorAll("a, button, summary")].find((at) => keyOf(at) === focused)?.focus({ preventScroll: true });
    } catch (error) {
      lost.hidden = false;
    } finally {
      asked = false;
      if (again) { again = false; refresh(); }
    }
  }

  const colours = ["#0b66a8", "#b83c08", "#2a7f3f", "#8a4fbf", "#9a6b00", "#c2185b", "#00838f", "#5d6b00"];

  function options(box, names, rounds) {
    const ink = getComputedStyle(document.body).getPropertyValue("--grey").trim() || "#888";
    const percent = box.dataset.unit === "%";
    const shown = (value) => value == null ? "" : percent ? (100 * value).toFixed(1) + " %" : value.toLocaleString("en");
    const axis = { stroke: ink, grid: { stroke: ink + "33", width: 1 }, ticks: { stroke: ink + "33" } };
    return {
      width: Math.max(box.clientWidth, 200), height: 260, scales: { x: { time: false } },
      axes: [{ ...axis, label: "round", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }, { ...axis, size: 70, values: (_, at) => at.map(shown) }],
      series: [{ label: "round" }, ...names.map((name, i) => ({
        label: name, stroke: colours[i % colours.length], width: 2, spanGaps: true, points: { show: rounds <= 60, size: 4 },
        dash: i < colours.length ? [] : [6, 4], value: (_, value) => shown(value) }))],
    };
  }

  async function draw() {
    const answer = await fetch(main.querySelector(".chart").dataset.source || "/charts.json");
    if (!answer.ok || answer.redirected) return;
    const data = await answer.json();
    for (const box of main.querySelectorAll(".chart")) {
      const series = data[box.dataset.series], names = Object.keys(series);
      const rows = [data.rounds, ...names.map((name) => series[name])];
      const key = names.join("\n");
      const none = data.rounds.length === 0 || names.length === 0;
      box.parentElement.querySelector(".empty").hidden = !none;
      box.hidden = none;
      if (none) continue;
      const before = charts.get(box.id);
      if (before && before.key === key) { before.plot.setData(rows); continue; }
      if (before) before.plot.destroy();
      charts.set(box.id, { key, plot: new uPlot(options(box, names, data.rounds.length), rows, box) });
    }
  }

  addEventListener("resize", () => charts.forEach(({ plot }) => {
    const box = plot.root.parentElement;
    plot.setSize({ width: Math.max(box.clientWidth, 200), height: 260 });
  }));
  document.addEventListener("visibilitychange", refresh);
  if (main.querySelector(".chart")) draw();
  if (!main.querySelector("form.login")) {
    const events = new EventSource("/events");
    events.addEventListener("changed", refresh);
    events.onopen = () => { if (!lost.hidden) { lost.hidden = true; refresh(); } };
    events.onerror = () => { lost.hidden = false; };
  }
})();
