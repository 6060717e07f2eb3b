// Walks through the lesson: buttons, arrow keys, and the step a link asks for (?step=forks). Which
// step is shown is an attribute of #learn; the style sheet does the rest.
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const value = JSON.parse(props.value);
const steps = value.steps;
const lesson = () => document.getElementById("learn");
const TYPING = "input, textarea, select, [contenteditable], [role=listbox], [role=option], .pv-scroll, .pv-table";

const lessons = (window.sporkLesson ??= { at: 0, paints: new Set() });
if (!lessons.listening) {
  lessons.listening = true;
  document.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const root = lesson();
    if (!by || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.shiftKey || !root?.offsetParent || event.target.closest?.(TYPING + ", [role=tab]")) return;
    event.preventDefault();
    lessons.go(lessons.at + by, true);
  });
}

lessons.go = (wanted, moved) => {
  const root = lesson();
  lessons.at = Math.max(0, Math.min(steps.length - 1, wanted));
  lessons.key = steps[lessons.at].key;
  root.dataset.step = lessons.at + 1;
  lessons.paints.forEach((paint) => paint());
  if (!moved) return;
  const heading = document.querySelector(`#learn-step-${lessons.at + 1} h2`);
  if (heading) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
  if (root.getBoundingClientRect().top < 0) root.scrollIntoView({ block: "start" });
};

const button = (className, text, onClick) => {
  const node = make("button", className, text);
  node.type = "button";
  node.addEventListener("click", onClick);
  return node;
};
const back = button("learn-move", "← " + value.previous, () => lessons.go(lessons.at - 1, true));
const on = button("learn-move learn-next", "", () => lessons.go(lessons.at + 1, true));
const count = make("span", "learn-count");
const moves = make("div", "learn-moves");
moves.append(back, count, on);
const entries = steps.map((step, place) => {
  const entry = button("learn-entry", "", () => lessons.go(place, true));
  if (place < value.numbered) entry.append(make("span", "learn-number", String(place + 1)));
  entry.append(make("span", "learn-title", step.title));
  return entry;
});
const list = make("ol", "learn-list");
entries.forEach((entry) => {
  const item = make("li");
  item.append(entry);
  list.append(item);
});

const paint = () => {
  const here = lessons.at;
  entries.forEach((entry, place) => {
    if (place === here) entry.setAttribute("aria-current", "step");
    else entry.removeAttribute("aria-current");
  });
  back.disabled = here === 0;
  on.disabled = here === steps.length - 1;
  on.textContent = value.next + " →";
  on.title = steps[here + 1]?.title || "";
  count.textContent = here < value.numbered ? `${here + 1} / ${value.numbered}` : steps[here].title;
};
const shell = element.querySelector(".learn-nav");
shell.setAttribute("aria-label", value.name);
shell.replaceChildren(...(value.list ? [list, moves] : [moves]));
lessons.paints.add(paint);
if (value.list) {
  const asked = new URLSearchParams(location.search).get("step");
  const place = steps.findIndex((step) => step.key === asked);
  lessons.go(place < 0 ? lessons.at : place, false);
}
paint();
