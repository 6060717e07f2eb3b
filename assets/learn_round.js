// Steps through one recorded round: what was drafted, what the target said, what was kept. All text
// is placed with textContent.
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const PROPOSE = 0;
const CHECK = 1;
const KEEP = 2;
let stage = PROPOSE;

const chip = (draft) => {
  const node = make("span", "lr-chip");
  if (stage !== PROPOSE) node.classList.add("fate-" + draft.fate);
  if (stage === CHECK) node.append(make("span", "lr-glyph glyph-" + draft.fate, draft.glyph));
  node.append(make("span", "lr-token", draft.text));
  node.append(make("span", "lr-number", stage === PROPOSE ? draft.q : draft.p));
  if (stage === CHECK) node.append(make("span", "lr-verdict", draft.verdict));
  return node;
};

const kept = (part) => {
  const node = make("span", "token is-first is-last fate-" + part.fate, part.text.replace(/␣/g, " "));
  node.append(make("span", "sr-only", ` (${part.fate_word || part.fate}) `));
  return node;
};

const draw = (focus) => {
  const shell = element.querySelector(".lesson-round");
  let value = null;
  try {
    value = JSON.parse(props.value || "null");
  } catch {
    value = null;
  }
  shell.hidden = !value;
  if (!value) return;
  const buttons = value.stages.map(({ name }, place) => {
    const button = make("button", "lr-stage", name);
    button.type = "button";
    button.setAttribute("aria-pressed", String(place === stage));
    button.addEventListener("click", () => {
      stage = place;
      draw(place);
    });
    return button;
  });
  const bar = make("div", "lr-stages");
  bar.append(...buttons);
  const told = make("p", "lr-told", value.stages[stage].told);
  told.setAttribute("aria-live", "polite");
  const text = make("p", "lr-text");
  text.append(make("span", "lr-before", value.before));
  const drafts = make("span", "lr-drafts");
  if (stage === KEEP) {
    const accepted = value.drafts.filter((draft) => draft.fate === "accepted");
    text.append(...[...accepted, value.own].filter(Boolean).map(kept));
  } else {
    drafts.append(...value.drafts.map(chip));
  }
  shell.replaceChildren(bar, told, text, drafts);
  if (focus !== undefined) buttons[focus].focus();
};
draw();
watch("value", () => {
  stage = PROPOSE;
  draw();
});
