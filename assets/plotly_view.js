// Draws one Plotly figure per plotly_view. Every text goes in through textContent or through figure
// JSON whose labels Python has escaped; nothing is ever parsed as HTML here.
(() => {
  "use strict";
  if (window.sporkPlotly) return;

  const { make } = window.sporkParts;
  const CONFIG = { displayModeBar: false, displaylogo: false, typesetMath: false, scrollZoom: false };
  const views = new Set();
  let library = null;

  // The library is 1.5 MB: it is asked for once, when the first chart comes into view or when the
  // page has been idle for a moment, so that it does not hold up a race that has begun.
  function loadLibrary() {
    library ??= new Promise((resolve, reject) => {
      if (window.Plotly) return resolve(window.Plotly);
      const address = window.sporkPlotlyAddress || fileAddress(window.sporkPlotlyFile);
      if (!address) return reject(new Error("no file"));
      const script = document.createElement("script");
      script.src = address;
      script.onload = () => (window.Plotly ? resolve(window.Plotly) : reject(new Error("no Plotly")));
      script.onerror = () => reject(new Error("not served"));
      document.head.append(script);
    });
    return library;
  }

  // A page without a server names the address itself, as sporkPlotlyAddress. Gradio's file route
  // works behind a root path: only the path of Gradio's own root is trusted, not its host.
  function fileAddress(file) {
    if (!file) return "";
    const config = window.gradio_config || {};
    const root = new URL(config.root || ".", document.baseURI).pathname.replace(/\/+$/, "");
    return root + (config.api_prefix || "/gradio_api") + "/file=" + encodeURI(file);
  }

  const IDLE_AFTER_MS = 1500;
  function whenIdle(run) {
    setTimeout(() => (window.requestIdleCallback || setTimeout)(run), IDLE_AFTER_MS);
  }

  function isDark(node) {
    const parts = (getComputedStyle(node).color.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 128;
  }

  // The colour the chart lies on: the first ancestor that has one.
  function background(node) {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (colour && !/^(transparent|rgba\(.*, 0\))$/.test(colour)) return colour;
    }
    return null;
  }

  // A copy of the figure in which every colour is the one for a dark page. Only keys that hold
  // colours are touched, so a token that spells a colour stays itself.
  function recoloured(part, map, key = "") {
    if (typeof part === "string") return /color$/i.test(key) ? (map[part] ?? part) : part;
    if (Array.isArray(part)) return part.map((item) => recoloured(item, map, key));
    if (!part || typeof part !== "object") return part;
    return Object.fromEntries(
      Object.entries(part).map(([name, value]) => [name, recoloured(value, map, name)]),
    );
  }

  class View {
    constructor(element, props, trigger) {
      Object.assign(this, { element, props, trigger, drawn: null, wanted: false });
      const shell = element.querySelector(".plotly-view") || element;
      const find = (name) => shell.querySelector("." + name);
      this.shell = shell;
      [this.title, this.save, this.svg, this.scroll, this.chart, this.words, this.caption, this.table] =
        ["pv-title", "pv-save", "pv-svg", "pv-scroll", "pv-chart", "pv-words", "pv-caption", "pv-table"].map(find);
      this.save.addEventListener("click", () => this.download("png"));
      this.svg.addEventListener("click", () => this.download("svg"));
      this.table.addEventListener("keydown", (event) => this.move(event));
      new ResizeObserver(() => this.resized()).observe(this.scroll);
      new IntersectionObserver((entries) => {
        this.wanted = entries.at(-1).isIntersecting;
        if (this.shown !== this.value) this.draw();
      }, { rootMargin: "200px" }).observe(shell);
    }

    read() {
      let value = null;
      try {
        value = JSON.parse(this.props.value || "null");
      } catch {
        value = { alt: "This chart's data is damaged." };
      }
      this.value = value;
      this.shell.hidden = !value;
      if (!value) return;
      this.title.textContent = value.title || "";
      this.save.textContent = value.words?.save || "";
      this.svg.textContent = value.words?.save_svg || "";
      this.caption.textContent = value.caption || "";
      this.caption.hidden = !value.caption;
      this.chart.setAttribute("aria-label", value.alt || "");
      this.words.textContent = value.alt || "";
      this.layOut(value);
      this.fillTable(value.table);
      this.draw();
    }

    layOut(value) {
      const height = value.figure?.layout?.height || 0;
      const scrolls = Boolean(value.min_width || value.max_height);
      this.chart.style.minHeight = height + "px";
      this.chart.style.minWidth = value.min_width ? value.min_width + "px" : "";
      this.scroll.style.maxHeight = value.max_height ? value.max_height + "px" : "";
      this.scroll.toggleAttribute("data-scrolls", scrolls);
      if (scrolls) {
        this.scroll.tabIndex = 0;
        this.scroll.setAttribute("role", "group");
        this.scroll.setAttribute("aria-label", value.title || value.words?.chart || "");
      }
    }

    async draw() {
      const value = this.value;
      if (!value?.figure || !this.wanted || !this.scroll.clientWidth) return;
      let plotly;
      try {
        plotly = await loadLibrary();
      } catch {
        return this.say("unloaded");
      }
      if (value !== this.value) return;
      const dark = isDark(this.shell);
      const page = background(this.shell) || (dark ? value.dark[value.page] : value.page);
      const figure = recoloured(value.figure, { ...(dark ? value.dark : {}), [value.page]: page });
      figure.layout.autosize = true;
      try {
        await plotly.react(this.chart, figure.data, figure.layout, CONFIG);
      } catch {
        return this.say("undrawn");
      }
      if (!this.drawn) this.chart.on("plotly_click", (event) => this.clicked(event));
      Object.assign(this, { drawn: figure, shown: value, dark, page });
      this.paintTable(value, dark);
      this.shell.dataset.state = "drawn";
      this.save.hidden = this.svg.hidden = !value.title;
    }

    say(why) {
      this.words.textContent = [this.value.words?.[why], this.value.alt].filter(Boolean).join(this.value.words?.gap);
      this.chart.style.minHeight = "0";
      this.shell.dataset.state = "words";
    }

    clicked(event) {
      const point = event.points?.find((item) => item.customdata !== undefined && item.customdata !== null);
      if (point) this.pick([point.customdata].flat()[0]);
    }

    pick(index) {
      this.trigger("node_click", { index });
      this.element.dispatchEvent(new CustomEvent("spork-pick", { bubbles: true, detail: { index } }));
    }

    resized() {
      if (this.shown !== this.value) return void this.draw(); // it changed while nobody saw it
      if (this.scroll.clientWidth) window.Plotly.Plots.resize(this.chart);
    }

    retheme() {
      if (!this.drawn || isDark(this.shell) === this.dark) return;
      this.shown = null; // to be drawn anew, once it is in view
      this.draw();
    }

    download(format) {
      if (!this.drawn) return;
      const layout = { ...this.drawn.layout, paper_bgcolor: this.page };
      layout.width = this.chart.clientWidth;
      const filename = (this.value.title || "chart").replace(/[^\p{L}\p{N}]+/gu, "-");
      window.Plotly.downloadImage({ data: this.drawn.data, layout }, { format, scale: format === "png" ? 2 : 1, filename });
    }

    // The table says in words what the chart shows and is the keyboard's way to its nodes: one tab
    // stop, arrow keys inside.
    fillTable(table) {
      const focused = this.table.contains(document.activeElement) && document.activeElement.dataset.index;
      const [top, left] = [this.table.scrollTop, this.table.scrollLeft];
      this.table.hidden = !table?.rows?.length;
      if (this.table.hidden) return this.table.replaceChildren();
      const grid = make("table");
      grid.append(make("caption", "pv-hidden", table.caption));
      const head = make("tr");
      head.append(...table.head.map((text) => Object.assign(make("th", "", text), { scope: "col" })));
      grid.createTHead().append(head);
      grid.createTBody().append(...table.rows.map((row) => this.tableRow(row)));
      this.table.replaceChildren(grid);
      Object.assign(this.table, { scrollTop: top, scrollLeft: left });
      const buttons = [...this.table.querySelectorAll("button")];
      const stop = buttons.find((button) => button.getAttribute("aria-pressed") === "true") || buttons[0];
      buttons.forEach((button) => (button.tabIndex = button === stop ? 0 : -1));
      this.paintTable(this.value, isDark(this.shell));
      if (focused) buttons.find((button) => button.dataset.index === focused)?.focus({ preventScroll: true });
    }

    tableRow(row) {
      const line = make("tr");
      line.dataset.colour = row.colour || "";
      line.toggleAttribute("data-selected", Boolean(row.selected));
      const button = make("button", "", row.cells[0]);
      button.type = "button";
      button.dataset.index = row.index;
      button.setAttribute("aria-pressed", String(Boolean(row.selected)));
      button.addEventListener("click", () => this.pick(row.index));
      const first = make("th");
      first.scope = "row";
      first.append(button);
      line.append(first, ...row.cells.slice(1).map((text) => make("td", "", text)));
      return line;
    }

    paintTable(value, dark) {
      for (const line of this.table.querySelectorAll("tbody tr")) {
        const colour = line.dataset.colour;
        line.style.setProperty("--row", (dark && value.dark?.[colour]) || colour || "transparent");
      }
    }

    move(event) {
      const by = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
      if (by === undefined) return;
      const buttons = [...this.table.querySelectorAll("button")];
      const next = Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(document.activeElement) + by));
      event.preventDefault();
      buttons.forEach((button, index) => (button.tabIndex = index === next ? 0 : -1));
      buttons[next]?.focus();
    }
  }

  function retheme() {
    for (const view of views) view.element.isConnected ? view.retheme() : views.delete(view);
  }
  const themes = new MutationObserver(() => setTimeout(retheme, 60));
  const watched = { attributes: true, attributeFilter: ["class", "style", "data-theme"] };
  themes.observe(document.documentElement, watched);
  themes.observe(document.body, watched);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(retheme, 60));

  window.sporkPlotly = {
    mount(element, props, watch, trigger) {
      const view = new View(element, props, trigger);
      views.add(view);
      if (views.size === 1) whenIdle(() => loadLibrary().catch(() => {}));
      view.read();
      watch("value", () => view.read());
    },
  };
})();
