"use strict";
const form = document.getElementById("filter");
const rules = [...document.querySelectorAll("article.rule")];
const datums = [...document.querySelectorAll("article.datum")];
const openedByUs = new Set();

// Text in which a filter looks, taken once: what is shown does not change.
const words = new Map();
function textOf(element) {
  if (!words.has(element)) words.set(element, element.textContent.toLowerCase());
  return words.get(element);
}

function headOf(rule) {
  const parts = rule.querySelectorAll(":scope > :not(.examples, .rest)");
  return [...parts].map(textOf).join(" ");
}

function apply() {
  const severity = form.elements.severity.value;
  const text = form.elements.text.value.trim().toLowerCase();
  const file = form.elements.file ? form.elements.file.value : "";
  const fits = (element, known) =>
    (!file || element.dataset.file === file) && (!text || known.includes(text) || textOf(element).includes(text));
  let rulesShown = 0;
  let examplesShown = 0;
  for (const rule of rules) {
    const head = headOf(rule);
    const examples = [...rule.querySelectorAll(".example")];
    let fitting = 0;
    for (const example of examples) {
      example.hidden = !fits(example, head);
      fitting += !example.hidden;
    }
    const empty = !examples.length && !file && (!text || head.includes(text));
    rule.hidden = Boolean(severity && rule.dataset.severity !== severity) || !(fitting || empty);
    rulesShown += !rule.hidden;
    examplesShown += rule.hidden ? 0 : fitting;
    const rest = rule.querySelector(".rest");
    if (rest) unfold(rest, Boolean(text || file) && rest.querySelector(".example:not([hidden])") !== null);
  }
  for (const datum of datums) {
    datum.hidden = Boolean(severity && datum.dataset.severity !== severity) || !fits(datum, "");
  }
  document.getElementById("nothing").hidden = rulesShown > 0;
  const some = severity || text || file;
  form.elements.shown.value = some ? `${rulesShown} of ${rules.length} rules, ${examplesShown} examples` : "";
}

// What a filter opened it closes again; what the reader opened stays open.
function unfold(details, open) {
  if (open && !details.open) openedByUs.add(details);
  if (open) details.open = true;
  else if (openedByUs.delete(details)) details.open = false;
}

// A table is shown at its first fault, if that lies beyond the edge.
function scrollToFault(region) {
  const fault = region.querySelector("td.fault, .values td.error, .values td.warning");
  const header = region.querySelector("th");
  if (!fault || fault.offsetLeft + fault.offsetWidth <= region.clientWidth) return;
  region.scrollLeft = fault.offsetLeft - header.offsetWidth - region.clientWidth / 4;
}

function follow() {
  const target = document.getElementById(location.hash.slice(1));
  const tokens = target && target.querySelector("details.tokens");
  if (tokens) tokens.open = true;
  if (!target || !target.hidden) return;
  // A link leads to what the filter hides: the filter gives way.
  form.reset();
  apply();
  target.scrollIntoView();
}

if (form) {
  form.hidden = false;
  for (const event of ["input", "change"]) form.addEventListener(event, apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  // A browser may bring back what was typed before a reload.
  form.reset();
}
for (const tokens of document.querySelectorAll("details.tokens")) {
  const region = tokens.querySelector(".scroll");
  if (tokens.open) scrollToFault(region);
  else tokens.addEventListener("toggle", () => scrollToFault(region), { once: true });
}
window.addEventListener("hashchange", follow);
follow();
