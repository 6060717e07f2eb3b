/* Rounds in the browser: the player of the tab Inside a round, and sentences with marked tokens.
   Everything about a race arrives at once (spork_demo/ui/reel.py), so that moving among its rounds
   needs no server; only the round that is come to rest on is told to it. All text is placed with
   textContent. Lanes are played by their own recorded stopwatches, prefill apart. */
(() => {
  "use strict";
  if (window.sporkRounds) return;

  const { CALM_MS, make, button, speedMenu, calm, fill } = window.sporkParts;
  const BEFORE_CHARACTERS = 700;
  const LEAP = 10;
  const REST_MS = 140; // a round that stays so long is one the reader wants to see
  const GLIMPSE_MS = 1000; // while playing, the views beside the player follow at this pace
  const ANNOUNCE_MS = 700;

  const span = (ms) =>
    ms >= 999.5 ? `${(ms / 1000).toFixed(2)} s` : `${ms.toFixed(ms >= 9.95 ? 0 : 1)} ms`;

  function read(text) {
    try {
      return JSON.parse(text || "{}");
    } catch {
      return {};
    }
  }

  /* One token: [text, fate] or [text, fate, how it is shown]. */
  function mark([text, fate, shown], fates) {
    const look = fates?.[fate] || { glyph: "", name: fate };
    const node = make("mark", `rt-mark rt-${fate}`);
    const [, space, rest] = (shown ?? text).match(/^(\s*)([^]*)$/);
    const cue = make("span", "rt-glyph", look.glyph);
    cue.setAttribute("aria-hidden", "true");
    node.append(space, cue, rest, make("span", "rt-hidden", ` (${look.name}) `));
    node.title = look.name;
    return node;
  }

  /* A box of text that scrolls, so the keyboard must reach it. */
  function textBox(about) {
    const box = make("p", "rt-text");
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", about || "");
    return box;
  }

  /* A heading, a sentence and the tokens it speaks of. */
  function mountText({ element, props, watch }) {
    const shell = element.querySelector(".round-text") || element;
    const draw = () => {
      const value = read(props.value);
      const text = textBox(value.about);
      text.append(...(value.committed || []).map((token) => mark(token, value.fates)));
      text.hidden = !value.committed?.length;
      const verdict = make("p", "rt-verdict", value.verdict || "");
      verdict.setAttribute("aria-live", "polite");
      shell.replaceChildren(make("h3", "rt-place", value.place || ""), verdict, text);
    };
    draw();
    watch("value", draw);
  }

  /* One lane: its rounds, where each ends in its text, and how much of it is over at a time. */
  class Lane {
    constructor(data) {
      Object.assign(this, data);
      this.count = this.rounds.length;
      this.ends = this.rounds.map((round) => round.end);
      let text = "";
      this.offsets = this.rounds.map((round) => {
        const start = text.length;
        text += round.committed.map(([piece]) => piece).join("");
        return start;
      });
      this.text = text;
      this.total = this.rounds.reduce((sum, round) => sum + round.committed.length, 0);
      this.seconds = this.count ? this.ends[this.count - 1] : 0;
    }

    /* Rounds that are over after so many seconds; one that ends just then is over. */
    over(seconds) {
      let [low, high] = [0, this.count];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.ends[middle] <= seconds) low = middle + 1;
        else high = middle;
      }
      return low;
    }

    /* The text with the tokens of its last round marked; `over` rounds are over. */
    write(box, over, fates) {
      if (!over) return box.replaceChildren();
      const round = this.rounds[over - 1];
      const end = this.offsets[over - 1];
      let start = Math.max(0, end - BEFORE_CHARACTERS);
      if (/[\udc00-\udfff]/.test(this.text[start] || "")) start += 1;
      const before = (start ? "… " : "") + this.text.slice(start, end);
      const marks = round.committed.map((token) => mark(token, fates));
      const tail = over === this.count ? this.tail : "";
      box.replaceChildren(make("span", "rt-before", before), ...marks, tail);
      box.scrollTop = box.scrollHeight;
      return undefined;
    }
  }

  /* What the round cost, by phase, against the greedy lane's price for as many tokens. */
  class Price {
    constructor(words, phases) {
      this.words = words;
      this.phases = phases;
      this.element = make("div", "rounds-price");
      this.sentence = make("p", "rounds-cost");
      this.bars = make("div", "rounds-bars");
      this.element.append(this.sentence, this.bars);
    }

    show(round) {
      const spent = round.phases.reduce((sum, ms) => sum + ms, 0);
      const most = Math.max(spent, round.price || 0) || 1;
      this.sentence.textContent = round.cost;
      this.sentence.hidden = !round.cost;
      const parts = this.phases.map(([key, name], place) => [key, name, round.phases[place]]);
      const used = parts.filter(([, , ms]) => ms > 0);
      const rows = [this.row(this.words.ours, used, spent, most)];
      if (round.price) {
        rows.push(this.row(this.words.greedy, [["greedy", "", round.price]], round.price, most));
      }
      const key = make("ul", "rounds-key");
      used.forEach(([phase, name, ms]) => {
        const item = make("li", "", `${name} ${span(ms)}`);
        item.prepend(make("span", `rounds-sample phase-${phase}`));
        key.append(item);
      });
      this.bars.replaceChildren(...rows, key);
    }

    row(name, parts, ms, most) {
      const row = make("div", "rounds-row");
      const track = make("div", "rounds-track");
      track.setAttribute("aria-hidden", "true");
      parts.forEach(([key, , part]) => {
        const piece = make("div", `phase-${key}`);
        piece.style.width = `${(100 * part) / most}%`;
        track.append(piece);
      });
      row.append(make("span", "rounds-name", name), track, make("span", "rounds-ms", span(ms)));
      return row;
    }
  }

  class Player {
    constructor(root, settle) {
      this.root = root;
      this.settle = settle;
      this.speed = 1;
      this.all = false;
      this.lanes = [];
      const view = root.closest("#inside-view") || root;
      view.addEventListener("keydown", (event) => this.key(event));
      view.addEventListener("spork-pick", (event) => {
        if (event.target.closest?.("#inside-cost")) this.go(event.detail.index + 1);
      });
    }

    feed(text) {
      this.halt();
      const value = read(text);
      this.words = { ...value.words, about: value.about, dropped: value.dropped_words };
      this.fates = value.fates || {};
      this.phases = value.phases || [];
      this.lanes = (value.lanes || []).map((lane) => new Lane(lane));
      this.lane = Math.max(0, Math.min(value.lane || 0, this.lanes.length - 1));
      if (!this.lanes.length) return this.say(value.verdict || this.words.damaged);
      this.build();
      this.over = Math.max(1, Math.min((value.round || 0) + 1, this.chosen.count));
      this.at = this.chosen.ends[this.over - 1] || 0;
      return this.draw();
    }

    say(message) {
      this.root.replaceChildren(make("p", "rt-verdict", message || ""));
    }

    get chosen() {
      return this.lanes[this.lane];
    }

    /* The elements, in the order they are read. */
    build() {
      const words = this.words;
      this.root.tabIndex = -1;
      this.root.setAttribute("aria-label", words.title);
      this.drawn = [];
      this.place = make("p", "rt-place");
      this.verdict = make("p", "rt-verdict");
      this.text = textBox(words.about);
      this.dropped = make("p", "rt-dropped");
      this.price = new Price(words, this.phases);
      this.panels = this.lanes.map((lane, place) => this.panel(lane, place));
      this.side = make("div", "rounds-side");
      this.side.append(...this.panels.map((panel) => panel.element));
      this.announcer = make("p", "rt-hidden");
      this.announcer.setAttribute("role", "status");
      this.root.replaceChildren(
        this.picker(), this.controls(), this.scrub(), this.clockLine(), this.side,
        this.place, this.verdict, this.text, this.dropped, this.price.element, this.announcer,
      );
      this.arrange();
    }

    picker() {
      const box = make("fieldset", "rounds-lanes");
      box.id = "inside-lane";
      box.append(make("legend", "rt-hidden", this.words.lane));
      this.radios = this.lanes.map((lane, place) => {
        const label = make("label", "rounds-lane");
        label.dataset.lane = place;
        const radio = make("input");
        radio.type = "radio";
        radio.name = "rounds-lane";
        radio.addEventListener("change", () => this.pick(place));
        label.append(radio, make("span", "", lane.name));
        box.append(label);
        return radio;
      });
      return box;
    }

    controls() {
      const words = this.words;
      const bar = make("div", "rounds-controls");
      this.back = button("rounds-step", "←", () => this.step(-1));
      this.forth = button("rounds-step", "→", () => this.step(1));
      [[this.back, "inside-previous", words.previous], [this.forth, "inside-next", words.next]]
        .forEach(([step, id, name]) => {
          step.id = id;
          step.title = name;
          step.setAttribute("aria-label", name);
        });
      this.player = button("rounds-play", words.play, () => this.toggle());
      this.player.id = "inside-play";
      const speed = speedMenu("rounds-speed", words.speed, this.speed,
        (value) => (this.speed = value));
      bar.append(this.back, this.player, this.forth, speed);
      if (this.lanes.length > 1) bar.append(this.allBox());
      bar.append(make("span", "rounds-keys", words.keys));
      return bar;
    }

    allBox() {
      const label = make("label", "rounds-all");
      const box = make("input");
      box.type = "checkbox";
      box.checked = this.all;
      box.addEventListener("change", () => {
        this.all = box.checked;
        this.arrange();
        this.draw();
      });
      label.append(box, make("span", "", this.words.all));
      return label;
    }

    scrub() {
      const box = make("div", "rounds-scrub");
      box.id = "inside-round";
      this.range = make("input");
      Object.assign(this.range, { type: "range", min: 1, step: 1 });
      this.range.setAttribute("aria-label", this.words.scrub);
      this.range.addEventListener("input", () => this.go(Number(this.range.value)));
      box.append(this.range);
      return box;
    }

    clockLine() {
      const line = make("div", "rounds-clock");
      this.seconds = make("strong", "rounds-seconds");
      this.token = make("span", "rounds-token");
      this.standing = make("span", "rounds-standing");
      this.prefill = make("span", "rounds-prefill");
      line.append(this.seconds, this.token, this.standing, this.prefill);
      return line;
    }

    panel(lane, place) {
      const element = make("article", "rounds-panel");
      element.dataset.lane = place;
      const head = make("div", "rounds-panel-head");
      const name = button("rounds-panel-name", lane.name, () => this.pick(place));
      name.title = this.words.show;
      const clock = make("span", "rounds-panel-clock");
      const text = textBox(`${lane.name}: ${this.words.about}`);
      head.append(name, clock);
      const done = make("p", "rounds-done");
      element.append(head, text, done);
      return { element, name, clock, text, done, over: -1 };
    }

    /* One lane with its text, or all of them beside one another. */
    arrange() {
      this.side.hidden = !this.all;
      this.root.classList.toggle("is-side", this.all);
    }

    draw() {
      const lane = this.chosen;
      this.radios.forEach((radio, place) => (radio.checked = place === this.lane));
      this.root.dataset.lane = this.lane;
      const empty = !lane.count;
      [this.range, this.back, this.forth, this.player].forEach((part) => (part.disabled = empty));
      if (this.all) this.drawPanels();
      if (empty) return this.drawNothing();
      const shown = Math.max(1, this.over);
      const round = lane.rounds[shown - 1];
      this.range.max = Math.max(2, lane.count);
      this.range.value = shown;
      this.range.disabled = lane.count < 2;
      this.back.disabled = shown <= 1 && !this.playing;
      this.forth.disabled = shown >= lane.count && !this.playing;
      const told = { round: shown, count: lane.count, lane: lane.name };
      const running = this.playing && !this.over;
      this.place.textContent = fill(running ? this.words.running : this.words.place, told);
      this.verdict.textContent = running ? "" : round.verdict;
      lane.write(this.text, this.over, this.fates);
      this.text.hidden = this.all;
      const lost = running ? [] : round.dropped;
      this.dropped.replaceChildren(this.words.dropped, ...lost.map((token) => mark(token, this.fates)));
      this.dropped.hidden = !lost.length || this.all;
      this.price.element.hidden = false;
      this.price.show(round);
      this.prefill.textContent = fill(this.words.prefill, { span: lane.prefill });
      this.standing.textContent = running ? "" : round.standing;
      this.range.setAttribute("aria-valuetext", fill(this.words.at, {
        ...told, seconds: round.end.toFixed(2), tokens: round.tokens }));
      return this.drawClock();
    }

    drawNothing() {
      [this.place, this.seconds, this.token, this.standing, this.prefill].forEach(
        (part) => (part.textContent = ""));
      this.verdict.textContent = this.words.empty;
      this.text.hidden = this.dropped.hidden = this.price.element.hidden = true;
    }

    drawClock() {
      const lane = this.chosen;
      const tokens = this.over ? lane.rounds[this.over - 1].tokens : 0;
      const at = Math.min(this.at, lane.seconds);
      this.seconds.textContent = fill(this.words.seconds, { seconds: at.toFixed(2) });
      this.token.textContent = fill(this.words.token, { tokens, count: lane.total });
    }

    drawPanels() {
      this.panels.forEach((panel, place) => {
        const lane = this.lanes[place];
        const over = lane.over(this.at);
        const tokens = over ? lane.rounds[over - 1].tokens : 0;
        const done = over === lane.count;
        const seconds = Math.min(this.at, lane.seconds).toFixed(2);
        panel.clock.textContent = fill(this.words.so_far, { tokens, seconds });
        panel.element.classList.toggle("is-chosen", place === this.lane);
        panel.name.setAttribute("aria-pressed", String(place === this.lane));
        if (over === panel.over) return;
        panel.over = over;
        lane.write(panel.text, over, this.fates);
        panel.done.textContent = done
          ? fill(this.words.ended, { seconds: lane.seconds.toFixed(2) }) : "";
      });
    }

    /* Moves: to a round of this lane, or to the same moment in another. */
    go(number) {
      const lane = this.chosen;
      if (!lane?.count) return;
      this.pause();
      this.over = Math.max(1, Math.min(number, lane.count));
      this.at = lane.ends[this.over - 1];
      this.draw();
      this.rest();
    }

    step(by) {
      this.go(Math.max(1, this.over) + by);
    }

    pick(place) {
      this.lane = place;
      const lane = this.chosen;
      if (this.playing) {
        this.over = lane.over(this.at);
        this.draw();
      } else {
        this.over = Math.max(1, lane.over(this.at));
        this.at = lane.ends[this.over - 1] || 0;
        this.draw();
      }
      this.rest();
    }

    /* The other views follow once a round is come to rest on. */
    rest() {
      clearTimeout(this.resting);
      clearTimeout(this.telling);
      this.resting = setTimeout(() => this.tell(), REST_MS);
      if (this.playing) return;
      this.telling = setTimeout(() => {
        this.announcer.textContent = `${this.place.textContent}. ${this.verdict.textContent}`;
      }, ANNOUNCE_MS);
    }

    tell() {
      this.told = performance.now();
      if (!this.chosen) return;
      const place = { lane: this.lane, round: Math.max(1, this.over) - 1 };
      window.sporkRounds.rest = `${place.lane} ${place.round}`;
      this.settle(place);
    }

    /* Playing: from here on, or from the start when this is the end. */
    toggle() {
      if (this.playing) this.pause();
      else this.play();
    }

    get runTime() {
      return this.all ? Math.max(...this.lanes.map((lane) => lane.seconds)) : this.chosen.seconds;
    }

    play() {
      if (!this.chosen?.count) return;
      if (this.at >= this.runTime) {
        this.at = 0;
        this.over = 0;
      }
      this.playing = { last: performance.now() };
      this.told = performance.now();
      this.player.textContent = this.words.pause;
      this.draw();
      this.schedule();
    }

    schedule() {
      const next = () => this.tick();
      if (calm()) this.beat = setTimeout(next, CALM_MS);
      else this.frame = requestAnimationFrame(next);
    }

    tick() {
      if (!this.playing) return;
      if (this.root.offsetParent === null) return void this.pause();
      const now = performance.now();
      this.at += ((now - this.playing.last) / 1000) * this.speed;
      this.playing.last = now;
      const before = this.over;
      this.over = this.chosen.over(this.at);
      if (this.at >= this.runTime) return void this.pause();
      if (this.over !== before) this.draw();
      else {
        this.drawClock();
        if (this.all) this.drawPanels();
      }
      if (now - this.told > GLIMPSE_MS) this.tell();
      this.schedule();
    }

    /* A pause is at the end of a round, where everything on the page belongs together. */
    pause() {
      if (!this.playing) return;
      this.halt();
      const lane = this.chosen;
      this.over = Math.max(1, lane.over(this.at));
      const whole = this.all && this.at >= this.runTime;
      this.at = whole ? this.runTime : lane.ends[this.over - 1];
      this.draw();
      this.rest();
    }

    halt() {
      clearTimeout(this.beat);
      cancelAnimationFrame(this.frame);
      this.playing = null;
      if (this.player) this.player.textContent = this.words.play;
    }

    key(event) {
      if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
      const at = event.target;
      if (at.closest("input:not([type=range]), select, textarea, [contenteditable]")) return;
      if (at.matches("input[type=range]") && at !== this.range) return;
      const moves = {
        ArrowRight: () => this.step(1),
        ArrowLeft: () => this.step(-1),
        PageDown: () => this.step(LEAP),
        PageUp: () => this.step(-LEAP),
        Home: () => this.go(1),
        End: () => this.go(Infinity),
        " ": () => this.toggle(),
      };
      if (!moves[event.key] || !this.chosen) return;
      if (event.key === " " && at.closest("button, summary, a")) return;
      const scrolls = at.closest(".rt-text, .pv-scroll, .pv-table");
      if (scrolls && event.key !== " " && scrolls.matches(".pv-scroll, .pv-table")) return;
      if (event.shiftKey) return;
      event.preventDefault();
      moves[event.key]();
    }
  }

  window.sporkRounds = {
    mountText,
    mountPlayer({ element, props, watch, settle }) {
      const player = new Player(element.querySelector(".rounds") || element, settle);
      player.feed(props.value);
      watch("value", () => player.feed(props.value));
      return player;
    },
  };
})();
