// Draws the charts of the page from the JSON beside them: those in view first, the rest when there is nothing else to do.
const charts = (() => {
  "use strict";
  const config = JSON.parse(document.getElementById("chart-config").textContent);
  const slots = [...document.querySelectorAll("[data-chart]")];
  const views = new Map();
  const watchers = [];

  // Charts carry their data by column, and a column by what it repeats; `unpacked` turns both back.
  function unpacked(column, n) {
    if (Array.isArray(column)) return column;
    if (column === null || typeof column !== "object") return Array(n).fill(column);
    if (column.of) return unpacked(column.at, n).map((at) => column.of[at]);
    if (column.each) return column.each.flatMap((value) => Array(column.times).fill(value));
    const { cycle } = column;
    return Array.from({ length: n }, (_, i) => cycle[i % cycle.length]);
  }
  function rows({ n, columns }) {
    const names = Object.keys(columns), values = names.map((name) => unpacked(columns[name], n));
    return Array.from({ length: n }, (_, i) => Object.fromEntries(names.map((name, j) => [name, values[j][i]])));
  }

  // A canvas does not know the page's variables, so colours are looked up before it is drawn.
  function resolved(value) {
    const style = getComputedStyle(document.documentElement);
    return JSON.parse(JSON.stringify(value).replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
  }

  function draw(slot) {
    slot.dataset.state = "drawing";
    observer.unobserve(slot);
    const spec = JSON.parse(document.getElementById(slot.dataset.chart).textContent);
    for (const name of Object.keys(spec.datasets)) spec.datasets[name] = rows(spec.datasets[name]);
    const canvas = slot.dataset.renderer === "canvas";
    const options = {
      mode: "vega-lite", renderer: slot.dataset.renderer, ast: true, actions: false, logLevel: 1,
      config: canvas ? resolved(config) : config, formatLocale: config.locale.number,
    };
    return window.vegaEmbed(slot, canvas ? resolved(spec) : spec, options).then(
      (result) => {
        views.get(slot)?.finalize();
        views.set(slot, result.view);
        slot.dataset.state = "drawn";
        watchers.forEach((watch) => watch(slot, spec, result.view));
      },
      (error) => {
        slot.dataset.state = "failed";
        slot.textContent = `This chart could not be drawn: ${error.message}`;
      },
    );
  }

  const waiting = () => slots.filter((slot) => !slot.dataset.state && slot.clientWidth > 0);
  const drawAll = () => Promise.all(waiting().map(draw));

  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => entry.isIntersecting && !entry.target.dataset.state && draw(entry.target)),
    { rootMargin: "300px" },
  );

  // A screenshot of the whole page, and a print of it, must not find blanks where nobody has scrolled yet.
  const whenIdle = (work) =>
    window.requestIdleCallback ? requestIdleCallback(work, { timeout: 1000 }) : setTimeout(work, 50);
  let busy = false;
  function drawNext() {
    const [slot] = busy ? [] : waiting();
    if (!slot) return;
    busy = true;
    draw(slot).finally(() => { busy = false; whenIdle(drawNext); });
  }

  const redrawCanvases = () =>
    Promise.all(slots.filter((slot) => slot.dataset.renderer === "canvas" && slot.dataset.state === "drawn").map(draw));

  function start() {
    slots.forEach((slot) => observer.observe(slot));
    addEventListener("load", () => setTimeout(() => whenIdle(drawNext), 500));
    document.addEventListener("toggle", () => whenIdle(drawNext), true);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCanvases);
  }
  return { slots, start, drawAll, redrawCanvases, whenDrawn: (watch) => watchers.push(watch) };
})();
