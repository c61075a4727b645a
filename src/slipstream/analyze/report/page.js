"use strict";
// Shows the value nearest to the pointer; the legend switches series on and off. Without this script
// the page shows the same plots.
(() => {
  const points = JSON.parse(document.getElementById("points").textContent);
  const tip = document.getElementById("tip");
  const hidden = new Set();
  const reach = 40;

  function showTip(event, lines) {
    tip.replaceChildren();
    for (const line of lines) {
      const row = document.createElement("div");
      row.textContent = line;
      tip.append(row);
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 14
      : event.clientX + 14;
    tip.style.left = Math.max(4, Math.min(left, innerWidth - box.width - 4)) + "px";
    tip.style.top = Math.max(4, event.clientY - box.height - 10) + "px";
  }

  function nearest(plot, x, y) {
    let best = null, distance = reach * reach;
    for (const series of points[plot] || []) {
      if (hidden.has(series.k)) continue;
      for (const point of series.p) {
        const apart = (point[0] - x) ** 2 + (point[1] - y) ** 2;
        if (apart < distance) { distance = apart; best = { series, point }; }
      }
    }
    return best;
  }

  function ring(svg, at) {
    let circle = svg.querySelector(".ring");
    if (!at) { if (circle) circle.remove(); return; }
    if (!circle) {
      circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      circle.setAttribute("class", "ring");
      circle.setAttribute("r", 5);
      svg.append(circle);
    }
    circle.setAttribute("cx", at[0]);
    circle.setAttribute("cy", at[1]);
  }

  function point(event) {
    const svg = event.currentTarget;
    const place = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(svg.getScreenCTM().inverse());
    const match = nearest(svg.dataset.plot, place.x, place.y);
    ring(svg, match && match.point);
    if (match) showTip(event, [match.series.n, match.point[2]]);
    else tip.hidden = true;
  }

  function leave(event) {
    ring(event.currentTarget, null);
    tip.hidden = true;
  }

  function toggle(key) {
    if (!hidden.delete(key)) hidden.add(key);
    const off = hidden.has(key);
    for (const mark of document.querySelectorAll(`[data-k="${CSS.escape(key)}"]`)) {
      if (mark.classList.contains("key")) mark.setAttribute("aria-pressed", String(!off));
      else mark.classList.toggle("off", off);
    }
  }

  for (const svg of document.querySelectorAll("svg.plot")) {
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", leave);
  }
  for (const key of document.querySelectorAll(".key")) {
    key.addEventListener("click", () => toggle(key.dataset.k));
    key.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(key.dataset.k); }
    });
  }
})();
