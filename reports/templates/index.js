// The index without this script is a plain table; with it, its columns sort and its rows can be filtered.
(() => {
  "use strict";
  const bar = document.querySelector(".toolbar");
  const table = document.querySelector(".index");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows].map((row) => ({
    row, text: row.textContent.toLowerCase(), kinds: [row.dataset.kind, ...row.dataset.flags.split(" ")],
    keys: [...row.cells].map((cell) => cell.dataset.sort),
  }));
  const collator = new Intl.Collator("en", { numeric: true });
  const textual = new Set(["name", "finding", "started"]);
  const counted = (amount) => amount.toLocaleString("en").replaceAll(",", "\u202f");

  // What has no value stands last in both directions.
  function compare(one, other, column, down) {
    const [a, b] = [one.keys[column], other.keys[column]];
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = textual.has(heads[column].dataset.key) ? collator.compare(a, b) : Number(a) - Number(b);
    return down ? -order : order;
  }
  function sort(column, down) {
    rows.sort((one, other) => compare(one, other, column, down));
    body.append(...rows.map((item) => item.row));
    heads.forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    bar.elements.sort.value = `${column} ${Number(down)}`;
  }
  function filter() {
    const words = bar.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = bar.elements.show.value;
    let shown = 0;
    for (const { row, text, kinds } of rows) {
      const fits = (!wanted || kinds.includes(wanted)) && words.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    bar.querySelector("output").textContent = shown === rows.length ? `${counted(shown)} runs` : `${counted(shown)} of ${counted(rows.length)} runs`;
    document.querySelector(".nothing").hidden = shown > 0;
    table.hidden = shown === 0;
  }

  heads.forEach((head, i) => {
    const name = head.textContent, first = "down" in head.dataset;
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: name });
    button.addEventListener("click", () => sort(i, head.hasAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : first));
    head.replaceChildren(button);
    for (const down of first ? [true, false] : [false, true]) {
      bar.elements.sort.append(new Option(`${name}${down ? ", descending" : ""}`, `${i} ${Number(down)}`));
    }
  });
  bar.elements.sort.addEventListener("change", () => {
    const [column, down] = bar.elements.sort.value.split(" ").map(Number);
    sort(column, Boolean(down));
  });
  bar.elements.text.addEventListener("input", filter);
  bar.elements.show.addEventListener("change", filter);
  bar.addEventListener("submit", (event) => event.preventDefault());
  bar.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { bar.elements.text.value = ""; filter(); }
  });
  bar.hidden = false;
  bar.elements.sort.value = `${heads.findIndex((head) => head.dataset.key === "verdict")} 0`;
  filter();
})();
