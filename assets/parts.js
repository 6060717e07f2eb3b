/* What the page's scripts have in common; loaded before them. */
(() => {
  "use strict";
  if (window.sporkParts) return;

  const SPEEDS = [0.25, 0.5, 1, 2, 4];

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  }

  function button(className, text, onClick) {
    const element = make("button", className, text);
    element.type = "button";
    element.addEventListener("click", onClick);
    return element;
  }

  /* A menu of playing speeds; `onChange` gets the one that is chosen. */
  function speedMenu(className, label, speed, onChange) {
    const menu = make("select", className);
    menu.setAttribute("aria-label", label);
    SPEEDS.forEach((value) => {
      const option = make("option", "", `${value}×`);
      option.value = value;
      option.selected = value === speed;
      menu.append(option);
    });
    menu.addEventListener("change", () => onChange(Number(menu.value)));
    return menu;
  }

  window.sporkParts = {
    CALM_MS: 1000, // between two pictures where motion is not wanted
    make,
    button,
    speedMenu,
    calm: () => window.matchMedia("(prefers-reduced-motion: reduce)").matches,
    fill: (template, values) => (template || "").replace(/\{(\w+)\}/g, (all, name) =>
      name in values ? String(values[name]) : all),
  };
})();
