"use strict";
// Plays a film: keeps one number, the moment that is shown, moves it by keys, buttons and time, and draws that moment.

const LONGEST_PAUSE_MS = 1000, LEAST_FRAME_MS = 60, EVENTS_BEFORE = 150, EVENTS_LATER = 30;

class Player {
  constructor(film, root) {
    this.film = film;
    this.painter = new Painter(film.facts.look);
    this.moment = 0;
    this.playing = false;
    this.speed = 1;
    this.chosen = 0; // a sequence
    this.kind = "preempted";
    for (const [name, colour] of Object.entries(film.facts.look.colors)) {
      document.documentElement.style.setProperty("--" + name, colour);
    }
    document.documentElement.style.colorScheme = film.facts.look.dark ? "dark" : "light";
    this.build(root);
    const asked = /(?:^|[#&])step=(\d+)/.exec(location.hash);
    this.show(asked ? film.atStep(Number(asked[1])) : 0);
  }

  build(root) {
    const { facts } = this.film, last = this.film.length - 1;
    const button = (sign, title, act) => make("button", { type: "button", title, "aria-label": title, onclick: act }, sign);
    this.figures = make("div", { id: "figures" });
    this.chart = make("canvas", { id: "chart", "aria-hidden": "true" });
    this.scrub = make("input", { id: "scrub", type: "range", min: 0, max: last, value: 0, "aria-label": "moment" });
    this.where = make("span", { id: "where", role: "status" });
    this.playButton = button("▶ play", "play or pause (space)", () => this.toggle());
    this.speeds = make("select", { "aria-label": "speed", onchange: (e) => { this.speed = Number(e.target.value); } },
      ...[0.25, 0.5, 1, 2, 4, 10].map((value) => make("option", { value }, `${value}×`)));
    this.speeds.value = "1";
    const kinds = [...new Set(facts.events.map((event) => facts.strings[event[2]]))].sort();
    if (kinds.length && !kinds.includes(this.kind)) this.kind = kinds[0];
    this.kinds = make("select", { "aria-label": "kind of event", onchange: (e) => { this.kind = e.target.value; } },
      ...kinds.map((kind) => make("option", { value: kind }, kind.replaceAll("_", " "))));
    this.kinds.value = this.kind;
    this.canvas = make("canvas", { id: "grid", role: "img" });
    this.under = make("div", { id: "under" });
    this.rows = make("tbody");
    this.counts = make("span");
    this.events = make("ul", { id: "events" });
    this.found = make("div", { id: "found" });
    const key = (sign) => make("kbd", {}, sign);
    root.append(
      make("header", {}, make("h1", {}, facts.title), make("span", {}, facts.model), make("span", {}, facts.engine),
        make("span", {}, facts.pool), ...(facts.simulated ? [make("span", { class: "out" }, "simulated: no model ran")] : []),
        this.figures),
      make("div", { id: "time" }, this.chart, this.scrub,
        make("div", { id: "keys" }, button("|◀", "to the beginning (Home)", () => this.show(0)),
          button("‹", "a step back (,)", () => this.step(-1)), this.playButton,
          button("›", "a step forward (.)", () => this.step(1)), button("▶|", "to the end (End)", () => this.show(last)),
          this.speeds, button("«", "to the event before (<)", () => this.jump(-1)), this.kinds,
          button("»", "to the next event (>)", () => this.jump(1)), this.where)),
      make("section", { id: "pool" }, make("h2", {}, "pool",
        make("span", {}, `a cell: ${facts.per_cell > 1 ? count(facts.per_cell) + " blocks" : "a block"} · dim: cached · corner: shared`)),
        make("div", { id: "board" }, this.canvas), this.under),
      make("section", { id: "side" }, make("h2", {}, "sequences", this.counts),
        make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {},
          ...["", "request", "state", "tokens", "blocks", "shared", "made/most", "out"].map((word) => make("th", {}, word)))),
          this.rows)), this.found),
      make("section", { id: "log" }, make("h2", {}, "events"), make("div", { class: "scroll" }, this.events),
        make("footer", {}, ...(facts.left_out.length ? [facts.left_out.join("; ") + ". "] : []),
          key("space"), " play ", key(", ."), " step ", key("< >"), " event ", key("Home End"), " ends ", key("esc"),
          " deselect")),
    );
    this.grid = new Grid(this.canvas, this.film, this.painter);
    this.scrub.addEventListener("input", () => { this.pause(); this.show(Number(this.scrub.value)); });
    this.chart.addEventListener("pointerdown", (event) => { this.pause(); this.toChart(event); });
    this.chart.addEventListener("pointermove", (event) => { if (event.buttons) this.toChart(event); });
    this.canvas.addEventListener("pointermove", (event) => { this.pointed = this.grid.cellAt(event); this.tellPointed(); });
    this.canvas.addEventListener("pointerleave", () => { this.pointed = null; this.tellPointed(); });
    this.canvas.addEventListener("click", (event) => this.chooseCell(this.grid.cellAt(event)));
    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // --- moving --------------------------------------------------------------------------------------------------------

  show(moment) {
    this.moment = Math.max(0, Math.min(this.film.length - 1, moment));
    this.draw();
  }
  step(by) { this.pause(); this.show(this.moment + by); }
  jump(direction) {
    this.pause();
    const wanted = this.film.facts.strings.indexOf(this.kind);
    const at = this.film.facts.events.filter((event) => event[2] === wanted).map((event) => event[0]);
    const found = direction > 0 ? at.find((one) => one > this.moment) : at.findLast((one) => one < this.moment);
    if (found !== undefined) this.show(found);
  }
  toChart(event) {
    const box = this.chart.getBoundingClientRect();
    this.show(Math.round(((event.clientX - box.left) / box.width) * (this.film.length - 1)));
  }
  toggle() { this.playing ? this.pause() : this.play(); }
  pause() {
    this.playing = false;
    this.playButton.textContent = "▶ play";
  }
  play() {
    if (this.moment >= this.film.length - 1) this.show(0);
    this.playing = true;
    this.playButton.textContent = "■ pause";
    let due = performance.now(), drawn = due;
    const tick = (now) => {
      if (!this.playing) return;
      const { wall_s: wall } = this.film.moments;
      let next = this.moment;
      due = Math.max(due, now - LONGEST_PAUSE_MS);
      while (next < this.film.length - 1) {
        const wait = Math.min(LONGEST_PAUSE_MS, 1000 * (wall[next + 1] - wall[next])) / this.speed;
        if (due + wait > now) break;
        due += wait;
        next++;
      }
      if (next !== this.moment && now - drawn >= LEAST_FRAME_MS) {
        drawn = now;
        this.show(next);
      } else if (next !== this.moment) {
        this.moment = next;
      }
      if (this.moment >= this.film.length - 1) { this.pause(); this.draw(); } else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const keys = {
      " ": () => this.toggle(), ",": () => this.step(-1), ".": () => this.step(1), "<": () => this.jump(-1),
      ">": () => this.jump(1), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.step(-1e9),
      End: () => this.step(1e9), Escape: () => this.choose(0),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
  choose(seq) {
    this.chosen = seq === this.chosen ? 0 : seq;
    this.draw();
  }
  chooseCell(at) {
    if (at === null) return;
    const slot = this.film.cellsAt(this.moment)[at] >> 6;
    const row = slot && this.film.facts.rows[this.moment].find((one) => one[1] === slot);
    this.choose(row ? row[0] : 0);
  }

  // --- drawing -------------------------------------------------------------------------------------------------------

  draw() {
    const { facts } = this.film, chosen = facts.rows[this.moment].some((row) => row[0] === this.chosen && row[1]);
    const lit = new Map();
    if (chosen) {
      this.film.tableOf(this.chosen, this.moment).forEach((block, logical) => {
        const cell = Math.floor(block / facts.per_cell);
        if (!lit.has(cell)) lit.set(cell, logical);
      });
    }
    this.grid.draw(this.moment, chosen ? lit : null);
    this.drawFigures();
    this.drawChart();
    this.drawRows();
    this.drawEvents();
    this.drawFindings();
    this.tellPointed();
    this.scrub.value = this.moment;
  }
  drawFigures() {
    const m = this.film.moments, at = this.moment, blocks = this.film.facts.num_blocks;
    const free = blocks - m.active[at] - m.cached[at];
    const figure = (name, value) => make("span", {}, name + " ", make("b", {}, value));
    const share = (value) => `${count(value)} (${percent(value / blocks, 0)})`;
    this.figures.replaceChildren(figure("active", share(m.active[at])), figure("cached", share(m.cached[at])),
      figure("free", share(free)), figure("waste", percent(m.waste[at], 1)), figure("hits", percent(m.hit_rate[at], 0)),
      figure("preempted", count(m.preemptions[at])), figure("recomputed", count(m.recomputed[at]) + " tokens"),
      figure("speed", m.tokens_per_s[at] === null ? "–" : count(Math.round(m.tokens_per_s[at])) + " tok/s"));
    const since = m.wall_s[at] - m.wall_s[0], clock = new Date(1000 * m.wall_s[at]).toLocaleTimeString();
    this.where.textContent = `step ${count(m.step[at])} of ${count(m.step[this.film.length - 1])} · +${since.toFixed(1)} s · ${clock}`;
    this.counts.textContent = `${m.running[at]} running · ${m.waiting[at]} waiting` + (m.swapped[at] ? ` · ${m.swapped[at]} swapped` : "");
    this.canvas.setAttribute("aria-label", `${m.active[at]} blocks active, ${m.cached[at]} cached, ${free} free`);
  }
  drawChart() {
    const { pen, width, height } = prepared(this.chart), m = this.film.moments, last = Math.max(1, this.film.length - 1);
    const colors = this.painter.colors, x = (at) => (at / last) * width;
    const area = (levels, colour) => {
      pen.fillStyle = css(colour);
      pen.beginPath();
      pen.moveTo(0, height);
      levels.forEach((level, at) => pen.lineTo(x(at), height - (level / this.film.facts.num_blocks) * height));
      pen.lineTo(width, height);
      pen.fill();
    };
    area(m.active.map((level, at) => level + m.cached[at]), colors.cached);
    area(m.active, colors.active);
    pen.fillStyle = css(colors.bad);
    for (let at = 1; at <= last; at++) if (m.preemptions[at] > m.preemptions[at - 1]) pen.fillRect(x(at) - 0.5, 0, 1.5, 7);
    pen.fillStyle = css(colors.cursor);
    pen.fillRect(Math.min(width - 2, x(this.moment)), 0, 2, height);
  }
  drawRows() {
    const { facts } = this.film;
    this.rows.replaceChildren(...facts.rows[this.moment].map((row) => {
      const [seq, slot, state, tokens, blocks, shared, made, most, out, waits] = row, word = facts.strings[state];
      const chip = make("td", { class: "owner" }, slot ? this.painter.glyph(slot) : "");
      if (slot) {
        const look = this.painter.look(ACTIVE | (FULL << 2) | (slot << 6), 0, 0);
        chip.style.background = look.paper;
        chip.style.color = look.ink;
      }
      const kind = word === "preempted" || word === "swapped" ? "out" : word === "waits" ? "waits" : "running";
      const rest = waits && !blocks
        ? [make("td", { class: "why", colspan: 6 }, facts.strings[waits])]
        : [count(tokens), count(blocks), shared ? count(shared) : "·", `${count(made)}/${count(most)}`, out ? `✕${out}` : ""]
          .map((text) => make("td", {}, text));
      const line = make("tr", { class: seq === this.chosen ? "chosen" : "", onclick: () => this.choose(seq) }, chip,
        make("td", {}, this.film.nameOf(row)), make("td", { class: kind }, word), ...rest);
      return line;
    }));
  }
  // The events around the moment: what has happened, what this moment brought, what is still to come.
  drawEvents() {
    const { events, strings } = this.film.facts;
    let end = 0;
    for (let low = 0, high = events.length; low < high;) {
      const middle = (low + high) >> 1;
      if (events[middle][0] <= this.moment) end = low = middle + 1;
      else high = middle;
    }
    const shown = events.slice(Math.max(0, end - EVENTS_BEFORE), end + EVENTS_LATER);
    let newest = null;
    this.events.replaceChildren(...shown.map((event) => {
      const [moment, step, kind, words] = event;
      const when = moment < this.moment ? "before" : moment > this.moment ? "later" : "now";
      const line = make("li", { class: `${strings[kind]} ${when}`, onclick: () => { this.pause(); this.show(moment); } },
        make("b", {}, count(step)), make("span", {}, strings[words]));
      if (moment <= this.moment) newest = line;
      return line;
    }));
    const box = this.events.parentElement;
    box.scrollTop = newest ? newest.offsetTop + newest.offsetHeight - box.offsetTop - box.clientHeight * 0.75 : 0;
  }
  drawFindings() {
    const { findings, strings } = this.film.facts;
    this.found.replaceChildren(...findings[this.moment].map((texts) => {
      const [weight, headline, evidence, advice] = texts.map((at) => strings[at]);
      return make("p", {}, make("b", { class: weight }, headline), " ", make("span", {}, `${evidence} → ${advice}`));
    }));
  }
  tellPointed() {
    const known = this.pointed !== null && this.pointed !== undefined;
    this.under.textContent = known ? this.grid.words(this.pointed, this.moment) : "point at a cell; click it, or a row, to light a sequence's block table, in logical order";
  }
}

(async () => {
  const facts = JSON.parse(new TextDecoder().decode(await unpack("facts")));
  const film = new Film(facts, new Uint16Array(await unpack("cells")));
  window.player = new Player(film, document.getElementById("player"));
})();
