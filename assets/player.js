/* A static site's page: the race view, the charts and the rounds of recorded races, with no server
   behind them. It gives the page's own scripts what Gradio would: an element, props, watch and
   trigger. The data of a race comes as a script, for a page opened from disk cannot fetch. */
(() => {
  "use strict";
  const { races, words } = window.sporkSitePage;
  const { make } = window.sporkParts;
  const waiting = new Map();
  const at = (id) => document.getElementById(id);

  /* One of the page's components: `mount` is the script Gradio would run when it appears. */
  function component(element, mount, trigger = () => {}) {
    const props = { value: null };
    const watchers = [];
    mount(element, props, (_, run) => watchers.push(run), trigger);
    return (value) => {
      props.value = value;
      watchers.forEach((run) => run());
    };
  }

  function chart(id, trigger) {
    const element = at(id);
    element.innerHTML = at("plotly-view-template").innerHTML;
    return component(element, window.sporkPlotly.mount, trigger);
  }

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  /* A race's data, asked for when it is first wanted. */
  function load(id) {
    if (!waiting.has(id)) {
      let done;
      const data = new Promise((resolve, reject) => (done = { resolve, reject }));
      waiting.set(id, { data, done });
      const script = make("script");
      script.src = `data/${document.documentElement.lang}/${encodeURIComponent(id)}.js`;
      script.onerror = () => done.reject(new Error(id));
      document.head.append(script);
    }
    return waiting.get(id).data;
  }
  window.sporkSite = {
    receive: (id, text) => unpacked(text).then(waiting.get(id).done.resolve, waiting.get(id).done.reject),
  };

  /* Where the reader is: in the address, so that a link holds it. */
  const place = { race: "", lane: -1, round: -1 };
  function read(address = location.href) {
    const hash = new URLSearchParams(new URL(address).hash.slice(1));
    const number = (name) => (/^\d{1,5}$/.test(hash.get(name) || "") ? Number(hash.get(name)) - 1 : -1);
    const race = races.find((one) => one.id === hash.get("race")) || races[0];
    return { race: race.id, lane: number("lane"), round: number("round") };
  }
  function write() {
    const hash = `#race=${encodeURIComponent(place.race)}&lane=${place.lane + 1}&round=${place.round + 1}`;
    history.replaceState(null, "", hash);
    document.querySelectorAll("a.other-language").forEach((link) => (link.hash = hash));
  }

  class Player {
    constructor() {
      this.race = component(at("race"), (element, props, watch) => window.sporkRace.mount({
        element, props, watch, open: (to) => this.open(to.lane, to.round, true),
      }));
      this.charts = ["chart-0", "chart-1", "chart-2", "chart-3"].map((id) => chart(id));
      this.rounds = component(at("told"), (element, props, watch) => window.sporkRounds.mountPlayer({
        element, props, watch, settle: (to) => this.follow(to.lane, to.round),
      }));
      this.tree = chart("tree", (_, event) => this.pick(event.index));
      for (const id of ["chances", "worth", "judge", "inside-cost"]) this[id] = chart(id);
      at("stage").addEventListener("click", () => this.stage());
      // What was asked for: by now a race that loaded meanwhile may have written its own place.
      window.addEventListener("hashchange", (event) => this.go(read(event.newURL)));
      this.menu();
    }

    menu() {
      at("races").replaceChildren(...races.map((race) => {
        const link = make("a", "race-choice", race.title);
        link.href = `#race=${encodeURIComponent(race.id)}`;
        link.dataset.race = race.id;
        return link;
      }));
    }

    async go({ race, lane, round }) {
      if (race !== place.race || !this.data) {
        place.race = race;
        this.data = null;
        document.querySelectorAll(".race-choice").forEach((link) =>
          link.dataset.race === race ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
        try {
          const data = await load(race);
          if (place.race !== race) return;
          this.data = data;
          at("site-notice").textContent = "";
        } catch {
          at("site-notice").textContent = words.missing;
          return;
        }
        this.showRace();
      }
      this.open(lane, round);
    }

    showRace() {
      const { data } = this;
      this.race(data.lines);
      this.charts.forEach((show, index) => {
        show(data.charts[index]);
        at(`chart-${index}`).hidden = !data.charts[index];
      });
      at("origin").replaceChildren(...data.origin.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
      at("trace").href = `traces/${encodeURIComponent(place.race)}.json`;
    }

    /* A round of a lane, or the most telling one where the race has no such round. */
    open(lane, round, scroll = false) {
      const { data } = this;
      if (!data) return;
      const reel = JSON.parse(data.reel);
      if (reel.lanes[lane]?.rounds[round]) Object.assign(reel, { lane, round });
      this.rounds(JSON.stringify(reel));
      this.follow(reel.lane, reel.round);
      if (scroll) at("inside").scrollIntoView({ block: "start" });
    }

    /* The tree and the charts of the round the player came to rest on. */
    follow(lane, round) {
      const { data } = this;
      if (!data) return;
      Object.assign(place, { lane, round });
      const of = (name) => data[name][lane]?.[round] ?? null;
      this.tree(of("trees"));
      for (const name of ["chances", "worth", "judge"]) {
        this[name](of(name));
        at(name).hidden = !of(name);
      }
      at("story").textContent = of("stories") || "";
      at("why").hidden = !of("stories");
      this["inside-cost"](this.cost(lane, round));
      write();
    }

    /* What the rounds around this one cost, and a frame around this one. */
    cost(lane, round) {
      const text = this.data.costs[lane][Math.floor(round / this.data.stretch)];
      const value = JSON.parse(text ?? "null");
      const frame = value?.figure?.layout?.shapes?.[0];
      if (frame) Object.assign(frame, { x0: round + 0.5, x1: round + 1.5 });
      return JSON.stringify(value);
    }

    /* The story of a token of the tree, and its row in the table. */
    pick(index) {
      const stories = this.data?.nodes[place.lane]?.[place.round];
      const story = stories?.[String(index)];
      if (!story) return;
      const value = JSON.parse(this.data.trees[place.lane][place.round]);
      value.caption = story;
      value.table?.rows.forEach((row) => (row.selected = row.index === index));
      this.tree(JSON.stringify(value));
    }

    stage() {
      if (this.data) window.sporkStage.open({ ...this.data.stage, lines: this.data.lines });
    }
  }

  /* Light and dark: as the system has it, or as asked for here. */
  function theme() {
    const asked = new URLSearchParams(location.search).get("__theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const set = (dark) => [document.documentElement, document.body].forEach((node) => node.classList.toggle("dark", dark));
    set(asked ? asked === "dark" : system.matches);
    system.addEventListener("change", () => asked || set(system.matches));
    at("theme").addEventListener("click", () => set(!document.body.classList.contains("dark")));
  }

  theme();
  const player = new Player();
  player.go(read()).then(() => {
    if (new URLSearchParams(location.search).has("stage")) player.stage();
  });
})();
