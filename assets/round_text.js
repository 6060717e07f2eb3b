// Writes one round in words: where it stands, the text so far with the round's tokens marked, the
// verdict. All text is placed with textContent.
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const mark = ([text, fate, glyph, name]) => {
  const node = make("mark", "rt-mark rt-" + fate);
  const [, space, rest] = text.match(/^(\s*)([^]*)$/);
  const cue = make("span", "rt-glyph", glyph);
  cue.setAttribute("aria-hidden", "true");
  node.append(space, cue, rest, make("span", "rt-hidden", ` (${name}) `));
  node.title = name;
  return node;
};
const draw = () => {
  const shell = element.querySelector(".round-text");
  let value = {};
  try {
    value = JSON.parse(props.value || "{}");
  } catch {
    value = { verdict: "This round's data is damaged." };
  }
  const text = make("p", "rt-text");
  text.append(make("span", "rt-before", value.before || ""), ...(value.marks || []).map(mark));
  text.tabIndex = 0; // it scrolls, so the keyboard must reach it
  text.setAttribute("role", "group");
  text.setAttribute("aria-label", value.about || "");
  text.hidden = !(value.before || value.marks?.length);
  const verdict = make("p", "rt-verdict", value.verdict || "");
  verdict.setAttribute("aria-live", "polite");
  const dropped = make("p", "rt-dropped", value.dropped_words || "");
  dropped.append(...(value.dropped || []).map(mark));
  dropped.hidden = !value.dropped?.length;
  shell.replaceChildren(make("p", "rt-place", value.place || ""), verdict, text, dropped);
  text.scrollTop = text.scrollHeight;
};
draw();
watch("value", draw);
