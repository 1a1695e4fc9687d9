"use strict";
// What a film (kvtop/page/film.py) holds, and how its cells look: unpacking, colours, the grid. Knows no keys and no time.
// Text comes onto the page by textContent only. Nothing is loaded from anywhere.

const FREE = 0, CACHED = 1, ACTIVE = 2, FULL = 7;

// Of one block the code holds a level, 0 for none filled and 1 to 6 for a sixth each; of several the share of them.
const filledPercent = (fill, perCell) =>
  Math.round(perCell > 1 ? (100 * fill) / FULL : fill && (100 * (fill - 0.5)) / (FULL - 1));

async function unpack(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const number = new Intl.NumberFormat("en-US");
const count = (value) => number.format(value);
const percent = (value, places) => (value === null ? "–" : (100 * value).toFixed(places) + "%");
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const mix = (below, above, share) => below.map((value, i) => Math.round(value + (above[i] - value) * share));
const css = (colour) => `rgb(${colour.join(" ")})`;
const isLight = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140;

class Film {
  constructor(facts, cells) {
    this.facts = facts;
    this.moments = facts.moments;
    this.length = facts.moments.step.length;
    this.width = cells.length / this.length;
    for (let at = this.width; at < cells.length; at++) cells[at] ^= cells[at - this.width];
    this.cells = cells;
  }
  cellsAt(moment) { return this.cells.subarray(moment * this.width, (moment + 1) * this.width); }
  // A sequence's block table at a moment, built up from its changes.
  tableOf(seq, moment) {
    const table = [];
    for (const [since, kept, blocks] of this.facts.tables[seq] || []) {
      if (since > moment) break;
      table.length = kept;
      table.push(...blocks);
    }
    return table;
  }
  holdersOf(block, moment) {
    return this.facts.rows[moment].filter((row) => row[1] && this.tableOf(row[0], moment).includes(block));
  }
  nameOf(row) { return this.facts.names[row[0]]; }
  // The moment after the given step, or the last one there is.
  atStep(step) {
    const found = this.moments.step.findIndex((known) => known >= step);
    return found < 0 ? this.length - 1 : found;
  }
  // Who has had a slot lately: its cached blocks are still drawn in its colour.
  ownerOf(slot, moment) {
    for (let at = moment; at >= Math.max(0, moment - 400); at--) {
      const row = this.facts.rows[at].find((one) => one[1] === slot);
      if (row) return this.nameOf(row);
    }
    return "an earlier owner";
  }
}

class Painter {
  constructor(look) {
    this.colors = Object.fromEntries(Object.entries(look.colors).map(([name, hex]) => [name, rgb(hex)]));
    this.shares = look.shares;
    this.owners = look.owners.map(rgb);
    this.glyphs = look.glyphs;
    this.known = new Map();
  }
  owner(slot) { return this.owners[(slot - 1) % this.owners.length]; }
  glyph(slot) { return slot ? this.glyphs[(slot - 1) % this.glyphs.length] : "·"; }
  // The paper, ink and sign of a cell, as the dashboard has them.
  look(code, dimmed, changed) {
    const key = code * 4 + dimmed * 2 + changed;
    let found = this.known.get(key);
    if (!found) this.known.set(key, (found = this.worked(code, dimmed, changed)));
    return found;
  }
  worked(code, dimmed, changed) {
    const { colors, shares } = this;
    const state = code & 3, fill = (code >> 2) & 7, slot = code >> 6;
    let paper = colors.free, ink = colors.free_mark;
    if (state !== FREE && slot) {
      const owner = this.owner(slot);
      if (state === CACHED) [paper, ink] = [mix(colors.background, owner, shares.cached), mix(colors.background, owner, 0.5)];
      else if (fill < FULL) {
        paper = mix(colors.background, owner, shares.partial + ((shares.full - shares.partial) * fill) / 10);
        ink = mix(owner, colors.text, 0.4);
      } else {
        paper = mix(colors.background, owner, shares.full);
        ink = mix(isLight(paper) ? [8, 10, 14] : [255, 255, 255], paper, 0.25);
      }
    } else if (state !== FREE) [paper, ink] = [mix(colors.free, colors.muted, 0.35), colors.text];
    if (dimmed) [paper, ink] = [mix(colors.background, paper, shares.dimmed), mix(colors.background, ink, shares.dimmed)];
    if (changed) [paper, ink] = [mix(paper, colors.changed, shares.changed), isLight(paper) ? [0, 0, 0] : [255, 255, 255]];
    return { paper: css(paper), ink: css(ink), sign: state === FREE ? "" : this.glyph(slot) };
  }
}

// A canvas as sharp as the screen; returns its context and its size in CSS pixels.
function prepared(canvas) {
  const { width, height } = canvas.getBoundingClientRect(), scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return { pen, width, height };
}

class Grid {
  constructor(canvas, film, painter) { Object.assign(this, { canvas, film, painter, columns: 1, size: 1 }); }
  // "lit": cell → logical index in the chosen sequence's table; null: nobody is chosen.
  draw(moment, lit) {
    const { pen, width, height } = prepared(this.canvas), { film, painter } = this;
    const cells = film.cellsAt(moment), before = moment ? film.cellsAt(moment - 1) : cells;
    let size = Math.min(48, Math.floor(Math.sqrt((width * height) / cells.length)));
    while (size > 1 && Math.ceil(cells.length / Math.floor(width / size)) * size > height) size--;
    this.size = size = Math.max(1, size);
    this.columns = Math.max(1, Math.floor(width / size));
    const gap = size > 5 ? 1 : 0;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `600 ${Math.min(20, Math.round(size * 0.55))}px ui-monospace, monospace`;
    for (let at = 0; at < cells.length; at++) {
      const code = cells[at], x = (at % this.columns) * size, y = Math.floor(at / this.columns) * size;
      const logical = lit ? lit.get(at) : undefined, dimmed = lit && logical === undefined ? 1 : 0;
      const look = painter.look(code, dimmed, !dimmed && before[at] !== code ? 1 : 0);
      pen.fillStyle = look.paper;
      pen.fillRect(x, y, size - gap, size - gap);
      const sign = logical === undefined ? look.sign : String(logical);
      if (size >= 11 + 6 * (sign.length - 1) && sign) {
        pen.fillStyle = look.ink;
        pen.fillText(sign, x + (size - gap) / 2, y + (size - gap) / 2 + 0.5);
      }
      if ((code >> 5) & 1 && size >= 8) { // held by several: a corner
        pen.fillStyle = look.ink;
        pen.fillRect(x + size - gap - Math.ceil(size / 5), y, Math.ceil(size / 5), Math.ceil(size / 5));
      }
    }
  }
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size), row = Math.floor((event.clientY - box.top) / this.size);
    const at = row * this.columns + column;
    return column < this.columns && at >= 0 && at < this.film.width ? at : null;
  }
  // What is under the pointer, in words.
  words(at, moment) {
    const { per_cell: perCell, num_blocks: blocks } = this.film.facts;
    const code = this.film.cellsAt(moment)[at], state = code & 3, slot = code >> 6, first = at * perCell;
    const last = Math.min(blocks, first + perCell) - 1;
    const where = last > first ? `blocks ${count(first)}–${count(last)}` : `block ${count(first)}`;
    if (state === FREE) return `${where}: free`;
    const holders = perCell > 1 ? [] : this.film.holdersOf(first, moment);
    if (holders.length > 1) return `${where}: held by ${holders.map((row) => this.film.nameOf(row)).join(", ")}`;
    const owner = slot ? `${this.painter.glyph(slot)} ${this.film.ownerOf(slot, moment)}` : "nobody known";
    const fill = (code >> 2) & 7;
    const full = fill < FULL ? `, about ${filledPercent(fill, perCell)}% ${perCell > 1 ? "of them" : "filled"}` : "";
    return `${where}: ${state === ACTIVE ? "held by" : "cached, last of"} ${owner}${full}${(code >> 5) & 1 ? ", shared" : ""}`;
  }
}
