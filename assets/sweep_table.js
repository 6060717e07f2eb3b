// The cells of a sweep as a table that sorts by any column. A row's first cell is a button that
// loads its settings. All text is placed with textContent.
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
let value = {};
let order = null; // which column, and whether downwards; null until somebody chooses
const read = () => {
  try {
    value = JSON.parse(props.value || "{}");
  } catch {
    value = {};
  }
  draw();
};
const compare = (column, down) => (a, b) => {
  const [x, y] = [a.keys[column], b.keys[column]];
  if (x === null || y === null) return (x === null) - (y === null); // what is not known comes last
  const by = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
  return (down ? -by : by) || a.index - b.index;
};
const sortBy = (column) => {
  const current = order ?? value.order;
  order = { column, down: current?.column === column ? !current.down : column > 0 };
  draw();
  element.querySelectorAll("thead button")[column]?.focus();
};
const headCell = (text, column, current) => {
  const cell = make("th");
  cell.scope = "col";
  const sorted = current?.column === column;
  if (sorted) cell.setAttribute("aria-sort", current.down ? "descending" : "ascending");
  const button = make("button", "", text.replaceAll("-", "\u2011")); // only spaces may break
  button.type = "button";
  button.append(make("span", "st-arrow", sorted ? (current.down ? "\u00a0▼" : "\u00a0▲") : ""));
  button.lastChild.setAttribute("aria-hidden", "true");
  button.addEventListener("click", () => sortBy(column));
  cell.append(button);
  return cell;
};
const bodyRow = (row) => {
  const line = make("tr", row.best ? "st-best" : "");
  const first = make("th");
  first.scope = "row";
  const button = make("button", "st-load", row.cells[0]);
  button.type = "button";
  button.title = value.load;
  button.dataset.index = row.index;
  button.addEventListener("click", () => trigger("row_click", { index: row.index }));
  first.append(button, ...row.marks.map((mark) => make("span", "st-mark", mark)));
  line.append(first, ...row.cells.slice(1).map((text) => make("td", "", text)));
  return line;
};
const draw = () => {
  const shell = element.querySelector(".sweep-table");
  shell.hidden = !value.rows?.length;
  if (shell.hidden) return shell.replaceChildren();
  const current = order ?? value.order;
  const held = shell.contains(document.activeElement) ? document.activeElement.dataset.index : null;
  const table = make("table");
  const head = make("tr");
  head.append(...value.head.map((text, column) => headCell(text, column, current)));
  table.createTHead().append(head);
  const rows = [...value.rows].sort(current ? compare(current.column, current.down) : undefined);
  table.createTBody().append(...rows.map(bodyRow));
  const scroll = make("div", "st-scroll");
  scroll.tabIndex = 0; // it scrolls, so the keyboard must reach it
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", value.caption);
  scroll.append(table);
  const old = shell.querySelector(".st-scroll");
  const [top, left] = [old?.scrollTop || 0, old?.scrollLeft || 0];
  shell.replaceChildren(make("p", "st-caption", value.caption), scroll);
  Object.assign(scroll, { scrollTop: top, scrollLeft: left });
  if (held) shell.querySelector(`button[data-index="${held}"]`)?.focus({ preventScroll: true });
};
read();
watch("value", read);
