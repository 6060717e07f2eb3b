// Turns the query that Python wrote into a link to this very page, puts it into the address bar and
// on the clipboard, and shows it in a field where the clipboard is closed to us.
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const link = (query) => {
  const url = new URL(location.href);
  const theme = url.searchParams.get("__theme");
  url.search = query;
  url.hash = "";
  if (url.searchParams.get("tab") === "learn" && window.sporkLesson?.key) {
    url.searchParams.set("step", window.sporkLesson.key); // only the browser knows the open step
  }
  if (theme) url.searchParams.set("__theme", theme);
  return url.href;
};
const show = async () => {
  if (!props.value) return;
  const value = JSON.parse(props.value);
  const address = link(value.query);
  history.replaceState(history.state, "", address);
  const field = make("input", "share-field");
  Object.assign(field, { type: "text", readOnly: true, value: address });
  field.setAttribute("aria-label", value.words.link);
  field.addEventListener("focus", () => field.select());
  const told = make("p", "share-told");
  told.setAttribute("role", "status");
  element.querySelector(".share-link").replaceChildren(told, field);
  let copied = true;
  try {
    await navigator.clipboard.writeText(address);
  } catch {
    copied = false;
  }
  told.textContent = copied ? value.words.copied : value.words.select;
  if (!copied) field.focus({ preventScroll: true });
};
show();
watch("value", show);
