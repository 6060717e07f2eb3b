/* The race view: lanes of tokens drawn from lines of JSON (spork_demo/ui/token_view.py).
   Lines are only ever appended, so is the page. Text from models and strangers becomes text
   nodes and attributes, never HTML. Replay plays each lane by its own recorded stopwatch. */
(() => {
  "use strict";
  if (window.sporkRace) return;

  const { CALM_MS, make, button, speedMenu, calm, fill } = window.sporkParts;
  const HOVER_MS = 180;
  const LEAVE_MS = 280;

  const visible = (text) =>
    text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍");

  /* One lane: its events, how many of them are on the page, and the elements that show them. */
  class Lane {
    constructor(head, place, race) {
      this.head = head;
      this.place = place;
      this.race = race;
      this.events = [];
      this.shown = 0;
      this.build();
      this.clear();
    }

    build() {
      const words = this.race.words;
      this.element = make("article", "lane");
      this.element.dataset.lane = this.place;
      const top = make("header", "lane-head");
      const name = make("h2", "lane-name", this.head.name);
      name.id = `${this.race.id}-lane-${this.place}`;
      this.element.setAttribute("aria-labelledby", name.id);
      top.append(name);
      if (this.head.rules) {
        top.append(make("span", `rules rules-${this.head.exact ? "exact" : "article"}`,
          this.head.rules));
      }
      top.append(make("p", "lane-who", this.head.who));
      const meter = make("div", "lane-meter");
      this.rate = make("span", "lane-rate", "–");
      this.count = make("span", "lane-count");
      meter.append(this.rate, make("span", "lane-unit", words.rate), this.count);
      const track = make("div", "lane-track");
      track.setAttribute("aria-hidden", "true");
      this.bar = make("div", "lane-bar");
      track.append(this.bar);
      this.text = make("div", "lane-text");
      this.text.setAttribute("role", "listbox");
      this.text.setAttribute("aria-label", fill(words.tokens_of, { lane: this.head.name }));
      this.end = make("p", "lane-end");
      this.verdict = make("p", "lane-verdict");
      this.strip = make("dl", "lane-strip");
      this.note = make("p", "lane-few");
      const plain = make("details", "lane-plain");
      plain.append(make("summary", "", words.plain_text));
      this.plain = make("p", "lane-plain-text");
      plain.append(this.plain);
      plain.addEventListener("toggle", () => {
        this.plain.textContent = plain.open ? this.wholeText() : "";
      });
      const results = make("div", "lane-results");
      results.append(this.strip, this.note, plain);
      this.element.append(top, meter, track, this.text, this.end, this.verdict, results);
    }

    clear() {
      this.shown = 0;
      this.tokens = 0;
      this.untimed = 0;
      this.prefill = 0;
      this.clock = 0;
      this.finished = false;
      this.lastToken = this.endToken = null;
      this.text.replaceChildren();
      this.end.textContent = "";
      this.element.classList.remove("is-finished");
      this.meter();
    }

    /* Lane seconds at which each event was over. */
    times() {
      let clock = 0;
      return this.events.map((event) => (clock += event.seconds || 0));
    }

    wholeText() {
      return this.events.map((event) => event.kind === "round"
        ? event.committed.map((token) => token[1]).join("") : event.tail || "").join("");
    }

    show(upTo) {
      const nodes = document.createDocumentFragment();
      for (; this.shown < upTo; this.shown += 1) this.draw(this.events[this.shown], nodes);
      this.text.append(nodes);
      const first = this.text.querySelector(".token");
      if (first && !this.text.querySelector('[tabindex="0"]')) first.tabIndex = 0;
      this.meter();
    }

    draw(event, nodes) {
      this.clock += event.seconds || 0;
      if (event.kind === "started") this.prefill = event.seconds;
      else if (event.kind === "round") this.drawRound(event, nodes);
      else if (event.kind === "served") this.tokens = event.tokens;
      else this.drawEnd(event, nodes);
    }

    drawRound(round, nodes) {
      const last = round.committed.length - 1;
      round.committed.forEach((token, place) => {
        if (place === last && this.race.showDropped) {
          round.dropped.forEach((entry) => nodes.append(this.token(entry, round, null)));
        }
        this.tokens += token[8] || 1;
        const span = this.token(token, round, this.tokens);
        if (place === 0) span.classList.add("is-first");
        if (place === last) {
          span.classList.add("is-last");
          this.lastToken = span;
        }
        nodes.append(span);
      });
      // When what a server sent first was begun is not known, so its tokens are not timed.
      if (this.head.served && round.index === 0) this.untimed = this.tokens;
    }

    token(entry, round, number) {
      const span = make("span", `token fate-${entry[2]}`, entry[1]);
      if (!entry[1]) span.classList.add("is-empty");
      if (number === null) span.classList.add("is-dropped");
      span.tabIndex = -1;
      span.setAttribute("role", "option");
      span.setAttribute("aria-label", `${visible(entry[1]) || this.race.words.no_text}, ${this.race.fateName(entry[2])}`);
      span.sporkToken = { entry, round, number, lane: this };
      return span;
    }

    drawEnd(event, nodes) {
      this.finished = true;
      if (event.reason === "eos" && this.lastToken?.classList.contains("is-empty")) {
        this.endToken = this.lastToken;
        this.endToken.classList.add("is-end");
        const fate = this.race.fateName(this.endToken.sporkToken.entry[2]);
        this.endToken.setAttribute("aria-label", `${this.race.words.end_of_text}, ${fate}`);
      }
      if (event.tail) nodes.append(make("span", "tail", event.tail));
      this.end.textContent = event.words;
      this.element.classList.add("is-finished");
      this.element.dataset.reason = event.reason;
    }

    meter(at) {
      const decode = (at === undefined ? this.clock : Math.min(at, this.clock)) - this.prefill;
      const seconds = at === undefined || this.finished ? this.clock : at;
      const timed = this.tokens - this.untimed;
      this.rate.textContent = timed > 0 && decode > 0 ? (timed / decode).toFixed(1) : "–";
      this.count.textContent = fill(this.race.words.count,
        { tokens: this.tokens, seconds: seconds.toFixed(2) });
      this.bar.style.width = `${Math.min(100, (100 * this.tokens) / (this.head.asked || 1))}%`;
    }

    summarise(strip) {
      this.verdict.className = `lane-verdict verdict-${strip.badge}`;
      this.verdict.textContent = strip.verdict;
      this.strip.replaceChildren(...strip.cells.map(([name, value, unit]) => {
        const cell = make("div", "cell");
        cell.append(make("dt", "", name), make("dd", "", value), make("dd", "cell-unit", unit));
        return cell;
      }));
      this.note.textContent = strip.note;
    }

    follow() {
      this.text.scrollTop = 1e7;
    }

    get nearEnd() {
      return this.text.scrollHeight - this.text.scrollTop - this.text.clientHeight < 60;
    }
  }

  /* Details of one token: on hover, pinned by a tap, Enter or a click. */
  class Card {
    constructor(race) {
      this.race = race;
      this.element = make("div", "token-card");
      this.element.setAttribute("role", "dialog");
      this.element.hidden = true;
      this.pinned = false;
      this.element.addEventListener("pointerenter", () => clearTimeout(this.timer));
      this.element.addEventListener("pointerleave", () => this.leave());
      this.element.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.close(true);
      });
    }

    hover(span) {
      clearTimeout(this.timer);
      if (!this.pinned) this.timer = setTimeout(() => this.open(span, false), HOVER_MS);
    }

    leave() {
      clearTimeout(this.timer);
      if (!this.pinned) this.timer = setTimeout(() => this.close(false), LEAVE_MS);
    }

    open(span, pinned) {
      clearTimeout(this.timer);
      this.span?.classList.remove("is-open");
      this.span = span;
      this.pinned = pinned;
      span.classList.add("is-open");
      this.fill(span.sporkToken);
      this.element.hidden = false;
      this.put(span);
    }

    close(back) {
      clearTimeout(this.timer);
      this.element.hidden = true;
      this.pinned = false;
      this.span?.classList.remove("is-open");
      if (back && this.span?.isConnected) this.span.focus({ preventScroll: true });
      this.span = null;
    }

    fill({ entry, round, number, lane }) {
      const words = this.race.words;
      const [id, text, fate, target, draft, confidence, margin, source, together] = entry;
      const look = this.race.fates[fate] || { glyph: "", name: fate, words: fate };
      this.element.setAttribute("aria-label", words.card);
      const title = make("p", "card-token");
      const unwritten = this.span === lane.endToken ? words.end_of_text : words.no_text;
      title.append(make("code", `fate-${fate}`, text ? visible(text) : unwritten));
      const where = number === null ? words.not_kept : fill(words.place, { number });
      title.append(make("span", "card-place", `${where} · ${lane.head.name}`));
      const rows = make("dl", "card-rows");
      const add = (name, value) => rows.append(make("dt", "", name), make("dd", "", value));
      add(words.fate, `${look.glyph} ${look.words}`);
      if (id >= 0) add(words.id, String(id));
      if (together) add(words.together, String(together));
      add(words.round, String(round.index + 1));
      const percent = (value) => `${(100 * value).toFixed(1)} %`;
      if (source) add(words.source, this.race.sources[source] || source);
      if (target !== null) add(words.target_probability, percent(target));
      if (draft !== null) add(words.draft_probability, percent(draft));
      if (confidence !== null) add(words.confidence, percent(confidence));
      if (margin !== null) add(words.margin, margin.toPrecision(3));
      const actions = make("div", "card-actions");
      actions.append(
        button("card-open", words.open_round, () => {
          this.close(false);
          this.race.open({ lane: lane.place, round: round.index });
        }),
        button("card-close", words.close, () => this.close(true)),
      );
      this.element.replaceChildren(title, rows, actions);
    }

    /* Under the token, or above it where there is no room; at the foot of a narrow screen. */
    put(span) {
      const style = this.element.style;
      style.left = style.top = "";
      if (window.innerWidth < 640) return;
      const box = span.getClientRects()[0] || span.getBoundingClientRect();
      const card = this.element.getBoundingClientRect();
      const left = Math.max(8, Math.min(box.left, window.innerWidth - card.width - 8));
      const below = box.bottom + 6 + card.height < window.innerHeight;
      style.left = `${left}px`;
      style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - card.height - 6)}px`;
    }
  }

  class RaceView {
    constructor(root, open) {
      this.root = root;
      this.open = open;
      this.id = `race-${Math.random().toString(36).slice(2, 8)}`;
      this.showDropped = false;
      this.speed = 1;
      this.card = new Card(this);
      this.announcer = make("p", "sr-only");
      this.announcer.setAttribute("role", "status");
      this.bar = make("div", "race-bar");
      this.grid = make("div", "race-lanes");
      root.replaceChildren(this.bar, this.grid, this.card.element, this.announcer);
      this.listen();
      this.reset();
    }

    reset() {
      this.halt();
      cancelAnimationFrame(this.later);
      this.later = null;
      this.seen = "";
      this.head = null;
      this.lanes = [];
      this.summary = this.summarised = null;
      this.live = false;
      this.card.close(false);
    }

    /* Take the whole value; draw what is new, or everything when it is another race. What comes
       between two pictures is drawn together, so that a slow browser does not fall behind. */
    feed(value) {
      const lines = value || "";
      const fresh = this.seen === "" || !lines.startsWith(this.seen);
      if (fresh) this.reset();
      const end = lines.lastIndexOf("\n") + 1;
      const news = lines.slice(this.seen.length, end).split("\n").filter(Boolean);
      this.seen = lines.slice(0, end);
      news.forEach((line) => this.take(JSON.parse(line)));
      if (!this.head) return this.empty();
      const running = this.lanes.some((lane) => !lane.ended);
      const ended = this.live && !running;
      this.live = running && !this.head.recorded;
      if (news.length) {
        if (this.live && !fresh) this.later ??= requestAnimationFrame(() => this.paint());
        else this.paint();
      }
      if (!this.live) this.hold(false);
      if (fresh && this.live) this.reveal();
      if (ended) this.announce();
      return undefined;
    }

    /* On a small screen Run is far above the lanes. */
    reveal() {
      if (this.root.getBoundingClientRect().top < window.innerHeight * 0.7) return;
      this.root.scrollIntoView({ block: "start", behavior: calm() ? "auto" : "smooth" });
    }

    take(line) {
      if (line.kind === "race") this.begin(line);
      else if (line.kind === "summary") this.summary = line.lanes;
      else {
        const lane = this.lanes[line.lane];
        lane.events.push(line);
        if (line.kind === "finished") lane.ended = true;
      }
    }

    /* While a race runs the lanes keep the room they had, so that nothing below them moves. */
    hold(on) {
      this.grid.style.minHeight = on ? `${this.grid.offsetHeight}px` : "";
    }

    fateName(fate) {
      return this.fates[fate]?.name || fate;
    }

    begin(head) {
      this.hold(true);
      this.head = head;
      this.words = head.words;
      this.fates = head.fates;
      this.sources = head.sources;
      this.root.setAttribute("aria-label", this.words.race);
      this.lanes = head.lanes.map((lane, place) => new Lane(lane, place, this));
      this.grid.replaceChildren(...this.lanes.map((lane) => lane.element));
      this.grid.style.setProperty("--lanes", this.lanes.length);
      this.buildBar();
    }

    empty() {
      this.bar.replaceChildren();
      this.grid.replaceChildren();
    }

    buildBar() {
      const words = this.words;
      const badge = make("span", `badge badge-${this.head.recorded ? "recorded" : "live"}`,
        this.head.recorded ? words.recorded : words.live);
      const about = make("p", "race-about");
      about.append(badge, make("span", "race-origin", this.head.origin));
      this.replay = button("race-replay", words.replay, () => this.toggle());
      this.all = button("race-all", words.show_all, () => this.finish());
      this.all.hidden = true;
      const speed = speedMenu("race-speed", words.speed, this.speed,
        (value) => this.setSpeed(value));
      const buttons = make("div", "race-buttons");
      buttons.append(this.replay, speed, this.all, about);
      const prompt = make("p", "race-prompt");
      prompt.append(make("span", "race-prompt-name", words.prompt), make("span", "", this.head.prompt));
      this.bar.replaceChildren(buttons, prompt, this.legend());
    }

    legend() {
      const list = make("ul", "race-legend");
      list.setAttribute("aria-label", this.words.legend);
      Object.entries(this.fates).forEach(([fate, look]) => {
        const item = make("li");
        item.title = look.words;
        const sample = make("span", `token fate-${fate} is-first is-last`, look.name);
        if (fate === "rejected" || fate === "cut") {
          item.classList.add("legend-dropped");
          sample.classList.add("is-dropped");
        }
        item.append(make("span", `glyph glyph-${fate}`, look.glyph), sample);
        list.append(item);
      });
      const label = make("label", "race-dropped");
      const box = make("input");
      box.type = "checkbox";
      box.checked = this.showDropped;
      box.addEventListener("change", () => {
        this.showDropped = box.checked;
        this.root.classList.toggle("shows-dropped", box.checked);
        this.redraw();
      });
      label.append(box, make("span", "", this.words.show_dropped));
      const line = make("div", "race-legend-line");
      line.append(list, label);
      return line;
    }

    paint() {
      cancelAnimationFrame(this.later);
      this.later = null;
      if (this.playing) return;
      const told = this.summary !== this.summarised && this.summary;
      this.following(this.live, (lane, place) => {
        if (lane.shown < lane.events.length) lane.show(lane.events.length);
        if (told) lane.summarise(told[place]);
      });
      this.summarised = this.summary;
      this.root.classList.toggle("is-live", this.live);
      this.replay.disabled = this.live;
    }

    /* Draw every lane; those that were read at their end stay there. Measured before anything is
       drawn and scrolled after, so that the browser lays out once. */
    following(on, draw) {
      const ends = this.lanes.map((lane) => on && lane.nearEnd);
      this.lanes.forEach(draw);
      this.lanes.forEach((lane, place) => ends[place] && lane.follow());
    }

    redraw() {
      this.card.close(false);
      this.lanes.forEach((lane) => {
        const upTo = lane.shown;
        lane.clear();
        lane.show(upTo);
      });
    }

    /* Replay: every lane by its own clock, all from the same start. */
    toggle() {
      if (!this.playing) this.play();
      else if (this.playing.paused) this.resume();
      else this.pause();
    }

    play() {
      this.card.close(false);
      this.hold(true);
      this.lanes.forEach((lane) => lane.clear());
      this.playing = { at: 0, paused: true, times: this.lanes.map((lane) => lane.times()) };
      this.root.classList.add("is-replaying");
      this.all.hidden = false;
      this.resume();
    }

    resume() {
      this.playing.paused = false;
      this.playing.last = performance.now();
      this.replay.textContent = this.words.pause;
      this.schedule();
    }

    pause() {
      this.playing.paused = true;
      clearTimeout(this.beat);
      cancelAnimationFrame(this.frame);
      this.replay.textContent = this.words.resume;
    }

    schedule() {
      const next = () => this.tick();
      if (calm()) this.beat = setTimeout(next, CALM_MS);
      else this.frame = requestAnimationFrame(next);
    }

    tick() {
      const play = this.playing;
      if (!play || play.paused) return;
      const now = performance.now();
      play.at += ((now - play.last) / 1000) * this.speed;
      play.last = now;
      let open = false;
      this.following(true, (lane, place) => {
        let upTo = lane.shown;
        while (upTo < lane.events.length && play.times[place][upTo] <= play.at) upTo += 1;
        if (upTo > lane.shown) lane.show(upTo);
        lane.meter(play.at);
        open ||= lane.shown < lane.events.length;
      });
      if (open) this.schedule();
      else this.finish();
    }

    setSpeed(speed) {
      this.speed = speed;
    }

    finish() {
      this.halt();
      this.paint();
      this.announce();
    }

    halt() {
      clearTimeout(this.beat);
      cancelAnimationFrame(this.frame);
      this.playing = null;
      this.hold(false);
      this.root.classList.remove("is-replaying");
      if (this.replay) this.replay.textContent = this.words.replay;
      if (this.all) this.all.hidden = true;
    }

    announce() {
      const parts = this.lanes.map((lane) => fill(this.words.spoken,
        { lane: lane.head.name, tokens: lane.tokens, rate: lane.rate.textContent }));
      this.announcer.textContent = [this.words.finished, ...parts].join(this.words.gap);
    }

    listen() {
      const token = (event) => event.target.closest?.(".lane-text .token");
      this.grid.addEventListener("pointerover", (event) => {
        const span = token(event);
        if (span && event.pointerType === "mouse") this.card.hover(span);
      });
      this.grid.addEventListener("pointerout", (event) => {
        if (token(event) && event.pointerType === "mouse") this.card.leave();
      });
      this.grid.addEventListener("click", (event) => {
        const span = token(event);
        if (!span) return;
        this.focus(span);
        this.card.open(span, true);
      });
      this.grid.addEventListener("keydown", (event) => {
        const span = token(event);
        if (span) this.key(event, span);
      });
      document.addEventListener("pointerdown", (event) => {
        const inside = event.target.closest?.(".token-card, .lane-text .token");
        if (!inside && !this.card.element.hidden) this.card.close(false);
      });
      document.addEventListener("scroll", () => {
        if (this.card.span && !this.card.element.hidden) this.card.put(this.card.span);
      }, { passive: true, capture: true });
    }

    key(event, span) {
      const next = {
        ArrowRight: () => span.nextElementSibling,
        ArrowLeft: () => span.previousElementSibling,
        ArrowDown: () => this.line(span, "nextElementSibling"),
        ArrowUp: () => this.line(span, "previousElementSibling"),
        Home: () => span.parentElement.querySelector(".token"),
        End: () => [...span.parentElement.querySelectorAll(".token")].pop(),
      }[event.key];
      if (next) {
        const target = next();
        if (target?.classList.contains("token")) {
          this.focus(target);
          this.card.open(target, false);
        }
      } else if (event.key === "Enter" || event.key === " ") {
        this.card.open(span, true);
        this.card.element.querySelector(".card-open").focus({ preventScroll: true });
      } else if (event.key === "Escape") this.card.close(true);
      else return;
      event.preventDefault();
    }

    /* The token nearest below or above, in the next line of the text. */
    line(span, step) {
      const left = span.offsetLeft;
      let best = null;
      let top = null;
      for (let other = span[step]; other; other = other[step]) {
        if (other.offsetTop === span.offsetTop) continue;
        if (top === null) top = other.offsetTop;
        if (other.offsetTop !== top) break;
        if (!best || Math.abs(other.offsetLeft - left) < Math.abs(best.offsetLeft - left)) best = other;
      }
      return best;
    }

    focus(span) {
      span.parentElement.querySelectorAll('[tabindex="0"]').forEach((old) => (old.tabIndex = -1));
      span.tabIndex = 0;
      span.focus({ preventScroll: false });
    }
  }

  window.sporkRace = {
    mount({ element, props, watch, open }) {
      const view = new RaceView(element.querySelector(".race") || element, open);
      view.feed(props.value);
      watch("value", () => view.feed(props.value));
      return view;
    },
  };
})();
