// Reads the data and shows the sections, one after the other.
const report = JSON.parse(document.getElementById("report-data").textContent);
report.horizon = Math.max(1, ...report.variants.map((variant) => variant.horizon));
document.getElementById("subtitle").textContent = report.variants.map((variant) =>
  `${variant.name}: ${plural(variant.waits.all.gangs, "gang")} in ${duration(variant.horizon)}, seed ${variant.seed}`).join(" · ");
if (report.note) {
  document.getElementById("note").textContent = report.note;
  document.getElementById("note").hidden = false;
}
for (const show of [showFigures, showPairs, showUtilisation, showGangsOverTime, showFragmentation, showWaits, showHeat, showQueues, showPlanner, showLongest, showGangs, showSettings]) show(report);
document.documentElement.dataset.ready = "true";
