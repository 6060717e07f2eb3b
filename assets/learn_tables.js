// A press on a setting in the troubleshooting table opens the race page and shows that setting.
const PATIENCE = 60;
const EVERY_MS = 50;
const ACCORDIONS = "#lanes, #knobs, [id^=knobs-]";

const opened = (box) => {
  const label = box.querySelector(":scope > button.label-wrap, :scope > .label-wrap");
  if (label && !label.classList.contains("open")) label.click();
};

// Accordions fill when they open, the outer one first, so this looks again until the knob is there.
const show = (id, within, left = PATIENCE) => {
  const knob = document.getElementById(id);
  if (knob && knob.offsetParent) {
    knob.scrollIntoView({ block: "center" });
    const input = knob.querySelector("input, textarea, button, select");
    (input || knob).focus({ preventScroll: true });
    knob.classList.add("learn-shown");
    setTimeout(() => knob.classList.remove("learn-shown"), 2500);
    return;
  }
  if (!left) return;
  within.map((name) => document.getElementById(name)).filter((box) => box?.offsetParent).forEach(opened);
  setTimeout(() => show(id, within, left - 1), EVERY_MS);
};

element.addEventListener("click", (event) => {
  const button = event.target.closest("[data-knob]");
  if (!button) return;
  const places = JSON.parse(props.places);
  const place = places[button.dataset.knob];
  trigger("open_setting", {});
  show(place.id, place.within);
});
