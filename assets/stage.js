/* The stage: a race told a screen at a time in large type, by keys only. The data comes whole from
   spork_demo/ui/stage.py; text from models and strangers becomes text nodes, never HTML. The lanes
   of the racing screen are the race view's own (assets/race.js). */
(() => {
  "use strict";
  if (window.sporkStage) return;

  const { make, fill } = window.sporkParts;
  const SVG = "http://www.w3.org/2000/svg";
  const LINE = 50; // the height of a line of the tree, in the units its widths are in
  const LEAST_SCALE = 2; // labels of 14 units are then 28 pixels high
  const NARROW = 700; // pixels below which a tree may be wider than the room, which then scrolls
  const NARROW_SCALE = 1.15;
  const MOST_SCALE = 3.4;
  const BEFORE = 220; // characters of the text before a round that large type has room for

  function draw(tag, attributes, text) {
    const element = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text !== undefined) element.textContent = text;
    return element;
  }

  /* The fork tree as large as the room allows, its first lines where not all fit. */
  function tree(value, fates, words, room) {
    const { width, rows, places } = value;
    const narrow = room.width < NARROW;
    const scale = Math.max(narrow ? NARROW_SCALE : LEAST_SCALE, Math.min(MOST_SCALE, room.width / (width + 30),
      room.height / (rows * LINE + 14)));
    const fitting = Math.max(1, Math.floor((room.height / scale - 4) / LINE));
    const shown = rows <= fitting ? rows : Math.max(1, fitting - 1);
    const high = shown * LINE + 14;
    const svg = draw("svg", {
      viewBox: `-14 ${-LINE * 0.62} ${Math.max(width + 28, room.width / scale)} ${high}`,
      width: narrow ? Math.max(room.width, (width + 28) * scale) : room.width,
      height: high * scale, class: "stage-tree", role: "img",
      preserveAspectRatio: "xMinYMin meet", "aria-label": value.told,
    });
    const edges = draw("g", {});
    const nodes = draw("g", {});
    const kept = (fate) => fate !== "rejected" && fate !== "cut";
    const order = [...places].sort((one, other) => kept(one[4]) - kept(other[4]));
    order.forEach(([x, y, half, label, fate, parent, numbers]) => {
      if (y >= shown) return;
      const dash = { dash: "7 5", dot: "2 5" }[fates[fate]?.dash] || "none";
      if (parent >= 0) {
        const [px, py, phalf] = places[parent];
        const [from, to] = [px + phalf, x - half];
        const [top, low, middle] = [py * LINE, y * LINE, (from + to) / 2];
        edges.append(draw("path", {
          d: `M${px},${top} L${from},${top} C${middle},${top} ${middle},${low} ${to},${low} L${x},${low}`,
          class: `stage-edge stage-${fate}`, "stroke-dasharray": dash,
        }));
      }
      const at = draw("g", { class: `stage-node stage-${fate}` });
      at.append(draw("circle", { cx: x, cy: y * LINE, r: 8, class: "stage-clear" }),
        draw("text", { x, y: y * LINE + 5, class: "stage-glyph" }, fates[fate]?.glyph || "□"),
        draw("text", { x, y: y * LINE - 11, class: "stage-label" }, label),
        draw("text", { x, y: y * LINE + 18, class: "stage-numbers" }, numbers));
      nodes.append(at);
    });
    svg.append(edges, nodes);
    const box = make("div", "stage-tree-box");
    box.append(svg);
    const hidden = rows - shown;
    if (hidden > 0) box.append(make("p", "stage-more", fill(words.more, { count: hidden })));
    return box;
  }

  class Stage {
    constructor() {
      this.root = make("div", "stage");
      this.root.setAttribute("role", "dialog");
      this.root.setAttribute("aria-modal", "true");
      this.root.tabIndex = -1;
      this.top = make("header", "stage-top");
      this.body = make("div", "stage-body");
      this.box = make("section", "race");
      this.foot = make("div", "stage-foot");
      this.said = make("p", "sr-only");
      this.said.setAttribute("aria-live", "polite");
      this.root.append(this.top, this.body, this.foot, this.said);
      this.onKey = (event) => this.key(event);
      this.onSize = () => this.show();
      this.onFull = () => {
        if (!document.fullscreenElement && this.wasFull) this.leave();
        this.wasFull = Boolean(document.fullscreenElement);
      };
      this.root.addEventListener("click", (event) => this.tap(event), true);
    }

    open(value) {
      const again = this.root.isConnected;
      this.value = value;
      this.words = value.words;
      this.screens = this.plan();
      if (again) return this.show();
      this.at = 0;
      this.before = document.activeElement;
      this.root.setAttribute("aria-label", this.words.stage);
      const parent = document.querySelector(".gradio-container") || document.body;
      this.behind = [...parent.children].filter((node) => !node.inert);
      this.behind.forEach((node) => (node.inert = true));
      parent.append(this.root);
      document.documentElement.classList.add("has-stage");
      document.addEventListener("keydown", this.onKey, true);
      document.addEventListener("fullscreenchange", this.onFull);
      window.addEventListener("resize", this.onSize);
      if (navigator.userActivation?.isActive) this.root.requestFullscreen?.().catch(() => {});
      this.root.focus();
      return this.show();
    }

    leave() {
      this.view?.halt();
      this.root.remove();
      this.behind.forEach((node) => (node.inert = false));
      document.documentElement.classList.remove("has-stage");
      document.removeEventListener("keydown", this.onKey, true);
      document.removeEventListener("fullscreenchange", this.onFull);
      window.removeEventListener("resize", this.onSize);
      this.wasFull = false;
      if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
      this.before?.focus?.({ preventScroll: true });
    }

    /* Every screen in order: what, and of which lane and round. */
    plan() {
      const lanes = this.value.lanes;
      if (!lanes?.length) return [{ kind: "nothing" }];
      const told = lanes.flatMap((lane, place) => [
        ...(lane.rounds.length ? [{ kind: "lane", lane: place }] : []),
        ...lane.rounds.map((_, round) => ({ kind: "round", lane: place, round })),
      ]);
      return [{ kind: "title" }, { kind: "race" }, { kind: "speed" }, ...told, { kind: "cost" }];
    }

    key(event) {
      const key = event.key;
      if (event.ctrlKey || event.altKey || event.metaKey || key === "Tab") return;
      if (key.startsWith("Arrow") && event.target.closest?.(".stage-scrolls")) return;
      if ((key === " " || key === "Enter") && event.target.closest?.("button")) return;
      const moves = {
        ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity,
      };
      if (key === "Escape") this.leave();
      else if (key === " ") this.play();
      else if (key === "ArrowDown" || key === "ArrowUp") this.other(key === "ArrowDown" ? 1 : -1);
      else if (key in moves) this.go(this.at + moves[key]);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }

    /* A hand has no keys: the thirds of the screen go back, do what Space does, and go on. */
    tap(event) {
      event.stopPropagation();
      if (event.target.closest(".stage-leave")) return this.leave();
      const third = Math.floor((3 * event.clientX) / window.innerWidth);
      if (third === 1) this.play();
      else this.go(this.at + third - 1);
    }

    go(to) {
      const next = Math.max(0, Math.min(this.screens.length - 1, to));
      if (next === this.at) return;
      this.at = next;
      this.show();
    }

    /* The same round of another lane, or its last one; from elsewhere, a lane's first screen. */
    other(step) {
      const here = this.screens[this.at];
      const lanes = this.value.lanes?.filter((lane) => lane.rounds.length) || [];
      if (!lanes.length) return;
      const places = lanes.map((lane) => this.value.lanes.indexOf(lane));
      const now = places.indexOf(here.lane);
      const lane = now < 0 ? places[step > 0 ? 0 : places.length - 1] : places[now + step];
      if (lane === undefined) return;
      const round = Math.min(here.round ?? -1, this.value.lanes[lane].rounds.length - 1);
      this.go(this.screens.findIndex((screen) => screen.lane === lane &&
        (round < 0 ? screen.kind === "lane" : screen.round === round)));
    }

    /* Space: the race runs and halts; elsewhere it goes on. */
    play() {
      if (this.screens[this.at].kind !== "race") this.go(this.at + 1);
      else if (!this.view.live) {
        this.view.toggle();
        this.top.querySelectorAll(".stage-start").forEach((hint) => hint.remove());
      }
    }

    /* New lines of a race that runs on the page behind the stage; at its end, all that is told of it
       is asked for anew. */
    feed(lines) {
      if (!this.root.isConnected || this.value.recorded !== false || lines === this.value.lines) return;
      this.value.lines = lines;
      if (this.screens[this.at].kind === "race") this.view.feed(lines);
      clearTimeout(this.calm);
      const ended = lines.split('"kind":"finished"').length > this.value.lanes.length;
      if (ended) this.calm = setTimeout(() => document.getElementById("stage-open")?.click(), 400);
    }

    show() {
      if (!this.root.isConnected) return;
      const screen = this.screens[this.at];
      this.view?.halt();
      this.body.className = `stage-body stage-is-${screen.kind}`;
      this.body.replaceChildren();
      this.top.replaceChildren();
      if (screen.kind === "nothing") {
        this.body.append(make("p", "stage-title", this.words.nothing));
        return this.way();
      }
      this.head(screen);
      this[screen.kind](screen);
      this.reach();
      const share = (100 * this.at) / Math.max(1, this.screens.length - 1);
      this.foot.style.setProperty("--share", `${share}%`);
      this.said.textContent = fill(this.words.place,
        { number: this.at + 1, count: this.screens.length });
    }

    head(screen) {
      const { recorded, origin, lanes } = this.value;
      const kind = recorded ? "recorded" : "live";
      this.top.append(make("span", `badge badge-${kind}`, this.words[kind]));
      const lane = lanes[screen.lane];
      if (lane) {
        const name = make("span", "stage-lane", lane.name);
        name.style.setProperty("--look", `var(--lane-${screen.lane})`);
        this.top.append(name);
        if (lane.rules) this.top.append(make("span", `rules rules-${lane.exact ? "exact" : "article"}`, lane.rules));
      }
      const heading = {
        race: () => this.words.race,
        speed: () => this.words.speed,
        cost: () => this.words.cost,
        round: () => fill(this.words.round, { number: screen.round + 1, count: lane.rounds.length }),
      }[screen.kind];
      if (heading) this.top.append(make("h1", "stage-heading", heading()));
      if (screen.kind === "title") this.top.append(make("span", "stage-origin", origin));
      this.way();
    }

    /* What scrolls, on a small screen, can be focused and then takes the arrows for itself. */
    reach() {
      [this.body, ...this.body.querySelectorAll(".stage-drawn")].forEach((box) => {
        const more = box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1;
        const scrolls = more && getComputedStyle(box).overflow.includes("auto");
        box.classList.toggle("stage-scrolls", scrolls);
        box.tabIndex = scrolls ? 0 : -1;
      });
    }

    /* The way out for hands: style shows it where there is no fine pointer. */
    way() {
      const leave = make("button", "stage-leave", "✕");
      leave.type = "button";
      leave.setAttribute("aria-label", this.words.leave);
      this.top.append(leave);
    }

    title() {
      const { title, prompt } = this.value;
      if (title) this.body.append(make("h1", "stage-title", title));
      const asked = make("p", "stage-prompt", prompt);
      this.body.append(make("p", "stage-name", this.words.prompt), asked,
        make("p", "stage-keys", this.words.keys), make("p", "stage-touch", this.words.touch));
    }

    /* The race view itself: its lanes, its clocks, its tokens. */
    race() {
      this.body.append(this.box);
      this.view ??= window.sporkRace.mount({
        element: this.box, props: {}, watch: () => {}, open: () => {},
      });
      this.view.feed(this.value.lines);
      if (this.view.live) return;
      this.view.play();
      this.view.pause();
      this.top.append(make("span", "stage-start stage-keys", this.words.start),
        make("span", "stage-start stage-touch", this.words.tap));
    }

    lane(screen) {
      const lane = this.value.lanes[screen.lane];
      const rate = make("p", "stage-rate", lane.rate_text);
      if (lane.ratio) rate.append(make("span", "stage-ratio", lane.ratio));
      const text = make("p", "stage-text");
      text.append(...lane.rounds.flatMap((round) => this.marks(round, true)));
      this.body.append(make("p", "stage-who", lane.who), rate, this.badge(lane), text);
    }

    speed() {
      const most = Math.max(...this.value.lanes.map((lane) => lane.rate), 1e-9);
      this.value.lanes.forEach((lane, place) => {
        const row = make("div", "stage-row");
        const bar = make("div", `stage-bar stage-bar-${place}`);
        bar.style.width = `${Math.max(0.5, (60 * lane.rate) / most)}%`;
        const told = make("span", "stage-bar-rate", lane.rate_text);
        if (lane.ratio) told.append(make("b", "stage-ratio", lane.ratio));
        const line = make("div", "stage-bar-line");
        line.append(bar, told);
        row.append(make("p", "stage-name", `${lane.name} ${lane.rules}`.trim()), line, this.badge(lane));
        this.body.append(row);
      });
    }

    badge(lane) {
      const box = make("div", "stage-verdicts");
      box.append(make("p", `lane-verdict verdict-${lane.badge}`, lane.verdict));
      if (lane.note) box.append(make("p", "stage-note", lane.note));
      return box;
    }

    /* The tokens of a round as they were written, or so that blanks can be seen. */
    marks(round, asWritten = false) {
      return round.marks.map(([text, fate, shown]) => {
        const mark = make("mark", `token fate-${fate}`, asWritten ? text : shown ?? text);
        mark.title = this.value.fates[fate]?.name || fate;
        return mark;
      });
    }

    /* What each look on this screen means: its sign, its line and its name. */
    legend(round) {
      const list = make("ul", "stage-legend");
      const found = new Set(round.tree.places.map(([, , , , fate]) => fate));
      Object.entries(this.value.fates).forEach(([fate, look]) => {
        if (found.has(fate)) list.append(make("li", `stage-${fate}`, `${look.glyph} ${look.name}`));
      });
      return list;
    }

    round(screen) {
      const { rounds } = this.value.lanes[screen.lane];
      const round = rounds[screen.round];
      const text = make("p", "stage-text");
      const earlier = rounds.slice(0, screen.round).flatMap((one) => one.marks.map(([piece]) => piece));
      const before = [...earlier.join("")];
      const cut = before.length > BEFORE ? "… " : "";
      text.append(make("span", "stage-before", cut + before.slice(-BEFORE).join("")), ...this.marks(round));
      const drawn = make("div", "stage-drawn");
      this.top.append(this.legend(round));
      this.body.append(make("p", "stage-verdict", round.verdict), text, drawn);
      text.scrollTop = text.scrollHeight;
      const room = { width: drawn.clientWidth, height: drawn.clientHeight };
      drawn.append(tree(round.tree, this.value.fates, this.words, room));
    }

    cost() {
      this.value.lanes.forEach((lane) => {
        const row = make("div", "stage-row");
        const cells = make("dl", "stage-cells");
        lane.fidelity.forEach(([name, value, unit]) => {
          const cell = make("div", "cell");
          cell.append(make("dt", "", name), make("dd", "", value), make("dd", "cell-unit", unit));
          cells.append(cell);
        });
        const speed = [lane.rate_text, lane.ratio].filter(Boolean).join(" · ");
        const line = make("div", "stage-line");
        line.append(make("p", "stage-name", `${lane.name} ${lane.rules}`.trim()),
          make("p", "stage-speed", speed), this.badge(lane));
        row.append(line, cells);
        this.body.append(row);
      });
    }
  }

  const stage = new Stage();
  window.sporkStage = {
    open: (value) => stage.open(value),
    feed: (lines) => stage.feed(lines),
    get shown() {
      return stage.root.isConnected ? stage.screens[stage.at] : null;
    },
  };
})();
