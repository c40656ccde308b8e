// The same steps in all charts: a line follows the pointer or the arrow keys through every chart, and a selection of
// steps in one is what all of them then show.
const steps = (() => {
  "use strict";
  const linked = new Map();
  const bar = document.getElementById("steps");
  const reader = document.getElementById("reader");
  const whole = [Number(bar.dataset.first), Number(bar.dataset.last)];
  let shown = whole;
  let dragged = null;

  const inView = new IntersectionObserver((entries) => entries.forEach((entry) => {
    const chart = linked.get(entry.target);
    chart.visible = entry.isIntersecting;
    if (chart.visible) refresh(chart);
  }));

  // Charts over steps have the parameter `steps`; what it holds at first are the steps that they know of.
  function link(slot, spec, view) {
    const own = spec.params?.find((item) => item.name === "steps")?.value;
    if (!own) return;
    const known = linked.get(slot);
    const chart = known ?? { slot, own, visible: false, ...overlay(), at: null };
    slot.append(chart.line, chart.band, chart.box);
    Object.assign(chart, { view, data: Object.values(spec.datasets), shown: own, values: signal(view, "values"), ticks: signal(view, "ticks"), lines: null });
    linked.set(slot, chart);
    if (!known) {
      listen(chart);
      inView.observe(slot);
    }
    if (shown !== whole) refresh(chart);
  }
  function signal(view, name) {
    try { return view.signal(name); } catch { return null; }
  }
  function overlay() {
    const made = (className) => Object.assign(document.createElement("div"), { className, hidden: true });
    return { line: made("crosshair"), band: made("brush"), box: made("readout") };
  }

  // --- which steps are shown ---------------------------------------------------------------------------------------
  function show(first, last) {
    const [low, high] = [Math.max(whole[0], Math.min(first, last)), Math.min(whole[1], Math.max(first, last))].map(Math.round);
    shown = low >= high || (low === whole[0] && high === whole[1]) ? whole : [low, high];
    bar.classList.toggle("zoomed", shown !== whole);
    [bar.elements.first.value, bar.elements.last.value] = shown;
    bar.elements.all.disabled = shown === whole;
    linked.forEach((chart) => chart.visible && refresh(chart));
    clear();
  }
  function refresh(chart) {
    const common = [Math.max(chart.own[0], shown[0]), Math.min(chart.own[1], shown[1])];
    const wanted = shown === whole || common[0] >= common[1] ? chart.own : common;
    if (wanted[0] === chart.shown[0] && wanted[1] === chart.shown[1]) return;
    const zoomed = wanted !== chart.own;
    chart.shown = wanted;
    chart.view.signal("steps", wanted).signal("zoomed", zoomed);
    if (chart.values) {
      const log = chart.view.scale("y").type === "log";
      const values = (zoomed && fitted(chart, log)) || chart.values;
      chart.view.signal("values", values);
      if (chart.ticks) chart.view.signal("ticks", zoomed ? logTicks(...values) : chart.ticks);
    }
    chart.view.runAsync();
  }

  // The range of the values at the steps shown, with some air, as the page drew it for all steps.
  function fitted(chart, log) {
    let low = Infinity, high = -Infinity;
    const note = (value) => {
      if (typeof value === "number" && (!log || value > 0)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    };
    for (const part of chart.data) for (const row of part) {
      if ("level" in row) note(row.level);
      else if (row.step >= chart.shown[0] && row.step <= chart.shown[1]) [row.lo, row.hi, row.mid].forEach(note);
    }
    if (low > high) return null;
    if (log) {
      const factor = Math.max((high / low) ** 0.06, 1.15);
      return [low / factor, high * factor];
    }
    const pad = 0.08 * (high - low) || 0.1 * Math.abs(high) || 1;
    return [low >= 0 && low <= 0.6 * high ? 0 : low - pad, high + pad];
  }
  function logTicks(low, high) {
    const first = Math.ceil(Math.log10(low)), last = Math.floor(Math.log10(high));
    const stride = Math.max(1, Math.ceil((last - first + 1) / 5));
    const powers = [];
    for (let power = first; power <= last; power++) if (power % stride === 0) powers.push(10 ** power);
    if (powers.length > 1) return powers;
    const finer = [];
    for (let power = first - 1; power <= last; power++) for (const digit of [1, 2, 5]) finer.push(digit * 10 ** power);
    const within = finer.filter((value) => value >= low && value <= high);
    return within.length ? within : [Math.sqrt(low * high)];
  }

  // --- one step in all charts --------------------------------------------------------------------------------------
  function frame(chart) {
    const [left, top] = chart.view.origin();
    return { left, top, width: chart.view.width(), height: chart.view.height() };
  }
  const place = (chart, step) => chart.view.scale("x")(step);
  function stepAt(chart, event) {
    const plot = frame(chart), x = event.clientX - chart.slot.getBoundingClientRect().left - plot.left;
    if (x < -8 || x > plot.width + 8) return null;
    const [first, last] = chart.shown;
    return Math.min(last, Math.max(first, Math.round(chart.view.scale("x").invert(x))));
  }
  function point(step, source) {
    linked.forEach((chart) => {
      if (chart.visible || chart === source) mark(chart, step, chart === source);
    });
  }
  function mark(chart, step, leading) {
    const inside = step !== null && step >= chart.shown[0] && step <= chart.shown[1];
    chart.line.hidden = !inside;
    chart.box.hidden = true;
    chart.at = inside ? step : null;
    if (!inside) return;
    const plot = frame(chart), entry = latest(chart, step);
    const x = plot.left + place(chart, leading && entry ? Math.max(entry.step, chart.shown[0]) : step);
    Object.assign(chart.line.style, { left: `${x}px`, top: `${plot.top}px`, height: `${plot.height}px` });
    if (!entry?.rows.length || (leading && chart.lines.grid)) return;
    chart.box.hidden = false;
    chart.box.classList.toggle("echo", !leading);
    chart.box.replaceChildren(...(leading ? [readout(`step ${counted(entry.step)}`, "", "b")] : []));
    for (const row of entry.rows) chart.box.append(readout(row.series ?? "", leading ? described(row) : short(row.mid), "span"));
    const room = chart.slot.clientWidth;
    chart.box.style.maxWidth = `${room}px`;
    const wide = chart.box.offsetWidth, beside = x + 10 + wide > room ? x - 10 - wide : x + 10;
    const left = leading ? beside : Math.min(x - wide / 2, room - wide);
    Object.assign(chart.box.style, { left: `${Math.max(0, left)}px`, top: `${leading ? plot.top + 4 : Math.max(0, plot.top - 18)}px` });
  }
  function clear() {
    linked.forEach((chart) => { chart.line.hidden = chart.box.hidden = chart.band.hidden = true; chart.at = null; });
    dragged = null;
  }

  // The values of a chart at a step, the last one up to it that has any: of its lines, or of the rows of a grid the
  // highest and the lowest.
  function latest(chart, step) {
    chart.lines ??= linesOf(chart);
    const { order, at } = chart.lines;
    let low = 0, high = order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (order[middle] <= step) low = middle + 1; else high = middle;
    }
    return order.length ? { step: order[Math.max(0, low - 1)], rows: at.get(order[Math.max(0, low - 1)]) } : null;
  }
  function linesOf(chart) {
    const at = new Map(), part = (name) => chart.data.find((rows) => rows.length && name in rows[0] && "step" in rows[0]);
    const lines = part("mid"), cells = lines ?? part("value") ?? [];
    for (const row of cells) if (at.has(row.step)) at.get(row.step).push(row); else at.set(row.step, [row]);
    if (!lines) at.forEach((rows, step) => at.set(step, "row" in rows[0] ? extremes(rows) : []));
    return { order: [...at.keys()].sort((a, b) => a - b), at, grid: !lines };
  }
  function extremes(rows) {
    const known = rows.filter((row) => row.value !== null).sort((a, b) => b.value - a.value);
    const told = (name, row) => ({ series: `${name} ${row.row}`, mid: row.value });
    return known.length < 2 ? known.map((row) => told("", row)) : [told("highest", known[0]), told("lowest", known.at(-1))];
  }

  // --- pointer, keys and numbers -----------------------------------------------------------------------------------
  function listen(chart) {
    const { slot } = chart;
    slot.tabIndex = 0;
    slot.classList.add("linked");
    slot.setAttribute("aria-describedby", "chart-keys");
    slot.addEventListener("pointerleave", () => dragged || clear());
    slot.addEventListener("pointermove", (event) => {
      const step = stepAt(chart, event);
      if (step === null) return dragged || clear();
      point(step, chart);
      if (dragged?.chart === chart) select(dragged.from, step, chart);
    });
    slot.addEventListener("pointerdown", (event) => {
      const step = event.button === 0 && event.pointerType !== "touch" ? stepAt(chart, event) : null;
      if (step === null) return;
      slot.setPointerCapture(event.pointerId);
      dragged = { chart, from: step, x: event.clientX };
    });
    slot.addEventListener("pointerup", (event) => {
      if (dragged?.chart !== chart) return;
      const { from, x } = dragged, step = stepAt(chart, event) ?? from;
      clear();
      if (Math.abs(event.clientX - x) > 4) show(from, step);
    });
    slot.addEventListener("pointercancel", clear);
    slot.addEventListener("dblclick", () => show(...whole));
    slot.addEventListener("focus", () => refresh(chart));
    slot.addEventListener("keydown", (event) => byKey(chart, event));
    slot.addEventListener("blur", clear);
  }
  function select(from, to, source) {
    linked.forEach((chart) => {
      const [low, high] = [Math.max(chart.shown[0], Math.min(from, to)), Math.min(chart.shown[1], Math.max(from, to))];
      chart.band.hidden = !(chart.visible || chart === source) || low > high;  // what is in view is told late
      if (chart.band.hidden) return;
      const plot = frame(chart), left = place(chart, low);
      Object.assign(chart.band.style, { left: `${plot.left + left}px`, top: `${plot.top}px`, width: `${place(chart, high) - left}px`, height: `${plot.height}px` });
    });
  }
  const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
  function byKey(chart, event) {
    if (event.key === "Escape") {
      if (dragged) clear(); else show(...whole);
    } else if (event.key === "Enter" && dragged?.chart === chart) {
      show(dragged.from, chart.at ?? dragged.from);
    } else if (event.key in MOVES && !event.ctrlKey && !event.altKey && !event.metaKey) {
      const from = chart.at ?? chart.shown[0], to = moved(chart, MOVES[event.key]);
      if (event.shiftKey) dragged ??= { chart, from }; else dragged = null;
      point(to, chart);
      if (dragged) select(dragged.from, to, chart); else linked.forEach((other) => { other.band.hidden = true; });
      reader.textContent = (dragged ? `steps ${counted(Math.min(dragged.from, to))} to ${counted(Math.max(dragged.from, to))} selected; ` : "") + told(chart, to);
    } else return;
    event.preventDefault();
  }
  function moved(chart, by) {
    chart.lines ??= linesOf(chart);
    const [first, last] = chart.shown;
    const stops = chart.lines.order.filter((step) => step >= first && step <= last);
    if (!stops.length) return Math.min(last, Math.max(first, (chart.at ?? first) + by));
    if (chart.at === null) return by === Infinity ? stops.at(-1) : stops[0];
    const here = Math.max(0, stops.findLastIndex((step) => step <= chart.at));
    return stops[Math.min(stops.length - 1, Math.max(0, here + by))];
  }

  bar.addEventListener("submit", (event) => event.preventDefault());
  bar.addEventListener("change", () => show(bar.elements.first.valueAsNumber || 0, bar.elements.last.valueAsNumber || whole[1]));
  bar.elements.all.addEventListener("click", () => show(...whole));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show-first]");
    if (button) show(Number(button.dataset.showFirst), Number(button.dataset.showLast));
  });

  // --- words -------------------------------------------------------------------------------------------------------
  const counted = (step) => step.toLocaleString("en").replaceAll(",", "\u202f");
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
  function told(chart, step) {
    const values = latest(chart, step)?.rows.map((row) => `${row.series ?? ""} ${described(row)}`.trim()) ?? [];
    return [`step ${counted(step)}`, ...values].join("; ");
  }
  function readout(name, value, tag) {
    const entry = document.createElement("div");
    for (const text of [name, value]) if (text) entry.append(Object.assign(document.createElement(tag), { textContent: text }));
    return entry;
  }

  return { link };
})();
