// The page around the charts: folds that open for what is linked to, and paper.
(() => {
  "use strict";
  charts.whenDrawn(steps.link);
  charts.start();

  // A link to a folded finding, or to a chart in a fold, opens the fold.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
    if (target.tabIndex >= 0 || target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
  }
  if (location.hash) reveal();
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    if (event.target.closest("a")?.getAttribute("href") === location.hash) reveal();
  });

  // On paper nothing is folded or left for later, and everything is light.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    unfolded = [...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((fold) => { fold.open = true; });
    charts.redrawCanvases();
    charts.drawAll();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    unfolded.forEach((fold) => { fold.open = false; });
    charts.redrawCanvases();
  });
})();
