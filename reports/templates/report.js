(() => {
  "use strict";
  const config = JSON.parse(document.getElementById("chart-config").textContent);
  const slots = [...document.querySelectorAll("[data-chart]")];
  const views = new Map();

  // Charts carry their data by column: a list, one value for all rows, or words with a position for each row.
  const cell = (column, i) =>
    Array.isArray(column) ? column[i] : column !== null && typeof column === "object" ? column.of[column.at[i]] : column;
  const rows = ({ n, columns }) => {
    const names = Object.keys(columns);
    return Array.from({ length: n }, (_, i) => Object.fromEntries(names.map((name) => [name, cell(columns[name], i)])));
  };

  // A canvas does not know the page's variables, so colours are looked up before it is drawn.
  const resolved = (value) => {
    const style = getComputedStyle(document.documentElement);
    return JSON.parse(JSON.stringify(value).replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
  };

  function draw(slot) {
    slot.dataset.state = "drawing";
    observer.unobserve(slot);
    const spec = JSON.parse(document.getElementById(slot.dataset.chart).textContent);
    for (const name of Object.keys(spec.datasets)) spec.datasets[name] = rows(spec.datasets[name]);
    const canvas = slot.dataset.renderer === "canvas";
    const options = {
      mode: "vega-lite", renderer: slot.dataset.renderer, ast: true, actions: false, logLevel: 1,
      config: canvas ? resolved(config) : config,
      formatLocale: { decimal: ".", thousands: "\u202f", grouping: [3], currency: ["", ""], minus: "\u2212" },
    };
    return window.vegaEmbed(slot, canvas ? resolved(spec) : spec, options).then(
      (result) => {
        views.get(slot)?.finalize();
        views.set(slot, result.view);
        slot.dataset.state = "drawn";
        followPointer(slot, spec, result.view);
      },
      (error) => {
        slot.dataset.state = "failed";
        slot.textContent = `This chart could not be drawn: ${error.message}`;
      },
    );
  }

  const observer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => entry.isIntersecting && !entry.target.dataset.state && draw(entry.target)),
    { rootMargin: "300px" },
  );
  slots.forEach((slot) => observer.observe(slot));

  // The value under the pointer, read from the binned data: no mark of the chart has to carry a tooltip.
  function followPointer(slot, spec, view) {
    const data = Object.values(spec.datasets).find((part) => part.length && "mid" in part[0] && "step" in part[0]);
    if (!data || slot.querySelector(".readout")) return;
    const line = slot.appendChild(Object.assign(document.createElement("div"), { className: "crosshair", hidden: true }));
    const box = slot.appendChild(Object.assign(document.createElement("div"), { className: "readout", hidden: true }));
    const hide = () => { line.hidden = box.hidden = true; };
    const steps = [...new Set(data.map((row) => row.step))].sort((a, b) => a - b);
    slot.addEventListener("pointerleave", hide);
    slot.addEventListener("pointermove", (event) => {
      const plot = slot.querySelector(".background")?.getBoundingClientRect();
      if (!plot || event.clientX < plot.left || event.clientX > plot.right) return hide();
      const [first, last] = view.scale("x").domain();
      const wanted = first + ((event.clientX - plot.left) / plot.width) * (last - first);
      const step = steps[Math.max(0, steps.findLastIndex((one) => one <= wanted))];
      const outer = slot.getBoundingClientRect();
      const x = plot.left - outer.left + ((step - first) / (last - first)) * plot.width;
      line.hidden = box.hidden = false;
      Object.assign(line.style, { left: `${x}px`, top: `${plot.top - outer.top}px`, height: `${plot.height}px` });
      box.replaceChildren(readout(`step ${step.toLocaleString("en").replaceAll(",", "\u202f")}`, "", "b"));
      for (const row of data) if (row.step === step) box.append(readout(row.series ?? "", described(row), "span"));
      const left = x + 10 + box.offsetWidth > outer.width ? x - 10 - box.offsetWidth : x + 10;
      Object.assign(box.style, { left: `${Math.max(0, left)}px`, top: `${plot.top - outer.top + 4}px` });
    });
  }

  function short(value) {
    if (value === null || value === undefined) return "none";
    const small = value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6);
    const text = small ? value.toExponential(3).replace(/\.?0*e\+?/, "e") : String(Number(value.toPrecision(4)));
    return text.replaceAll("-", "\u2212");
  }
  function described(row) {
    const range = row.lo !== undefined && row.lo !== row.hi ? ` (${short(row.lo)} to ${short(row.hi)})` : "";
    return short(row.mid) + range + (row.bad ? `, ${row.bad} not finite` : "");
  }
  function readout(name, value, tag) {
    const entry = document.createElement("div");
    for (const text of [name, value]) if (text) entry.append(Object.assign(document.createElement(tag), { textContent: text }));
    return entry;
  }

  // A link to a folded finding, or to a chart in a fold, opens the fold.
  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (target) target.scrollIntoView();
  }
  if (location.hash) reveal();
  addEventListener("hashchange", reveal);

  const redrawCanvases = () => slots.filter((slot) => slot.dataset.renderer === "canvas" && slot.dataset.state === "drawn").forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCanvases);

  // On paper nothing is folded or left for later, and everything is light.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    unfolded = [...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((fold) => { fold.open = true; });
    redrawCanvases();
    slots.filter((slot) => !slot.dataset.state).forEach(draw);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    unfolded.forEach((fold) => { fold.open = false; });
    redrawCanvases();
  });
})();
