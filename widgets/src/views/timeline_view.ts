/** The timeline of steps, in a lane for each thread, with waits and retraces. */

import { onTheme, themeOf } from "../colours";
import { button, html, KEYS, setText } from "../dom";
import { KEPT, type Choice, type Feed } from "../feed/feed";
import { number } from "../feed/tables";
import type { Absence } from "../feed/tasks";
import { count, seconds } from "../format";
import { Canvas2d } from "./canvas2d";
import { percentile, StepHistogram } from "./step_histogram";
import { keyOf } from "./timeline_key";
import { endsOf, FOOT, headOf, isInBar, LANE, timeOf, TimelinePicture, TOP, xOf, type Place, type Scale } from "./timeline_picture";
import { TimelineRows, type Busy, type Lane, type Move, type Span, type Trace } from "./timeline_rows";
import type { View } from "./view";

/** least and most pixels for the names of lanes */
const LEFT = [74, 150] as const;
const [SHORTEST, LONGEST] = [2e-5, 600];
/** visible seconds below which single steps matter */
const NEAR = 2;
/** part of the picture that is left free on both sides */
const MARGIN = 0.04;

export class TimelineView implements View {
  readonly element = html("div", { class: "ef-timeline" });
  private readonly canvas = new Canvas2d(150, "steps over time");
  private readonly summary = html("p", { class: "ef-note ef-summary" });
  private readonly key = html("p", { class: "ef-key" });
  private readonly tip = html("div", { class: "ef-tip", hidden: true });
  private readonly empty = html("p", { class: "ef-empty" }, "No step has run yet since this looks.");
  private readonly histogram = new StepHistogram();
  private readonly follow: HTMLButtonElement;
  private readonly unlisten: (() => void)[];
  private readonly rows: TimelineRows;
  /** visible seconds, and the time at the right edge; null to follow the newest steps */
  private length = 10;
  private end: number | null = null;
  private lanes: Lane[] = [];
  private moves: Move[] = [];
  private traces: Trace[] = [];
  private left: number = LEFT[0];
  private chosen: Choice | null = null;
  private shown = 0;

  constructor(
    private readonly feed: Feed,
    private readonly select: (executable: number) => void,
  ) {
    this.rows = new TimelineRows(feed);
    this.follow = button("follow", "follow the current steps", () => { this.end = null; this.draw(); }); // prettier-ignore
    const tools = html("div", { class: "ef-tools", role: "toolbar", "aria-label": "timeline" },
      button("+", "zoom in", () => { this.zoom(0.5); }),
      button("−", "zoom out", () => { this.zoom(2); }),
      button("last step", "show all of the last step", () => { this.showLast(); }), this.follow); // prettier-ignore
    const e = this.canvas.element;
    e.tabIndex = 0;
    for (const [name, value] of Object.entries(KEYS)) e.setAttribute(name, value);
    this.element.append(tools, this.key, this.summary, html("div", { class: "ef-lanes" }, e, this.tip), this.histogram.element, this.empty);
    this.listen();
    this.unlisten = [
      onTheme(() => { this.draw(); }),
      feed.onChoice((chosen) => { this.chosen = chosen; this.draw(); }),
    ]; // prettier-ignore
  }

  update(seen: boolean): void {
    if (seen) this.draw();
  }

  resize(): void {
    this.draw();
  }

  dispose(): void {
    for (const end of this.unlisten) end();
  }

  /** Highlight the steps of an executable. */
  mark(executable: number): void {
    this.shown = executable;
  }

  // --- drawing ---

  private draw(): void {
    const until = this.until();
    const from = until - this.length;
    this.lanes = this.rows.lanes(from, until);
    this.moves = this.rows.moves(from, until);
    this.traces = this.rows.traces(from, until);
    const hasTraces = this.feed.log("retraces").length > 0;
    const lanes = Math.max(this.lanes.length, 1) + Number(hasTraces);
    this.canvas.element.style.height = `${TOP + LANE * lanes + FOOT}px`;
    const drawing = this.canvas.begin();
    const times = this.rows.newest(this.shown).sort((a, b) => a - b);
    setText(this.summary, this.summarise(times));
    this.explain();
    this.histogram.draw(times);
    this.follow.disabled = this.end === null;
    if (!drawing) return;
    const { context, width, height } = drawing;
    this.makeRoom(context, width);
    const scale = { left: this.left, width, end: until, length: this.length };
    const picture = new TimelinePicture(context, themeOf(this.element), scale, this.rows, this.lanes);
    const isChosen = (of: Span | Move): boolean => this.isChosen(of);
    picture.drawAxis(height, this.end === null && this.length >= NEAR ? "now" : "");
    picture.within(() => {
      picture.drawMoves(this.moves, isChosen);
      this.lanes.forEach((_, i) => { picture.drawLane(i, this.shown, isChosen); });
      this.lanes.forEach((_, i) => { picture.drawAway(i); });
      for (const place of this.places()) picture.drawPlace(place, this.feed.now());
      picture.drawTraces(this.traces);
    }); // prettier-ignore
    picture.drawNames(hasTraces);
    this.describe(scale);
    this.empty.hidden = this.feed.log("timeline").length > 0 || this.feed.list("places").length > 0;
  }

  /** Say what the colours of bars mean that are shown. */
  private explain(): void {
    const kinds = keyOf(this.lanes, this.shown, this.shown ? this.rows.graphOf(this.shown) : "");
    const said = kinds.map(([kind, text]) => `${kind} ${text}`).join();
    if (this.key.dataset["said"] === said) return; // an element that changes would be read aloud
    this.key.dataset["said"] = said;
    this.key.replaceChildren(...kinds.map(([kind, text]) => html("span", {}, html("i", { class: `ef-${kind}` }), text)));
  }

  /** Give the names of lanes the room they need, and never less later, so that nothing jumps. */
  private makeRoom(context: CanvasRenderingContext2D, width: number): void {
    const needed = Math.max(...this.lanes.map((l) => context.measureText(l.label).width), 0) + 18;
    this.left = Math.min(Math.max(this.left, needed), LEFT[1], width / 3);
  }

  /** Unfinished steps, and open waits. */
  private places(): Place[] {
    return this.feed.list("places").map((row) => {
      const waits = this.feed.name(row, "doing") === "waits";
      const text = waits ? `waits for ${this.feed.name(row, "queue")}` : "runs";
      return { lane: this.rows.laneOf(row)[0], since: number(row, "since"), text, waits };
    });
  }

  /** Describe the drawing for screen readers; and give places of arrows, as a canvas has no elements. */
  private describe(scale: Scale): void {
    const { element } = this.canvas;
    const lanes = this.lanes.map((lane) => lane.label);
    const arrows = this.moves.flatMap((move) => {
      const [ends, x] = [endsOf(move, this.lanes), xOf(scale, move.stop)];
      return ends && x >= scale.left ? [`${x.toFixed(1)},${headOf(ends).toFixed(1)}`] : [];
    });
    const away = this.lanes.flatMap((lane) => lane.away.slice(-1).filter((a) => a.stop === Infinity).map((a) => `${lane.label} ${a.health}`));
    const label = `steps over time, in lanes: ${lanes.join(", ")}; ${this.moves.length} transfers, ${this.traces.length} traces${away.map((text) => `; ${text}`).join("")}`;
    if (element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
    element.dataset["lanes"] = lanes.join();
    element.dataset["away"] = away.join();
    element.dataset["moves"] = arrows.slice(0, 100).join(" ");
    element.dataset["chosen"] = String(this.moves.filter((m) => this.isChosen(m)).length);
  }

  private isChosen(of: Span | Move): boolean {
    const { chosen } = this;
    return chosen !== null && chosen.executable === of.executable && chosen.node >= 0 && chosen.node === of.node;
  }

  private summarise(times: readonly number[]): string {
    if (!times.length) return "";
    const at = (part: number): string => seconds(percentile(times, part));
    const retraces = this.rows.traces(0, Infinity).filter((trace) => !trace.isFirst);
    const last = retraces[retraces.length - 1];
    // the log forgets the first of very many
    const least = this.feed.log("retraces").length >= KEPT ? "at least " : "";
    const often = retraces.length === 1 ? "once" : `${least}${count(retraces.length)} times`;
    const traced = last ? ` · retraced ${often}, last ${last.name}: ${last.reason}` : "";
    const of = this.shown ? ` of ${this.rows.graphOf(this.shown)}` : "";
    return `last ${times.length} steps${of}: median ${at(0.5)}, p95 ${at(0.95)}, longest ${at(1)}${traced}`;
  }

  // --- moving ---

  /** The time at the right edge. News come late, so a close view ends at the last step instead. */
  private until(): number {
    if (this.end !== null) return this.end;
    const last = this.feed.log("timeline").at(-1);
    return this.length < NEAR && last ? number(last, "stop") + this.length * MARGIN : this.feed.now();
  }

  /** Show all of a span. */
  private show(of: { start: number; stop: number }): void {
    this.length = Math.min(Math.max((of.stop - of.start) / (1 - 2 * MARGIN), SHORTEST), LONGEST);
    this.end = of.stop + this.length * MARGIN;
    this.draw();
  }

  private showLast(): void {
    const row = this.feed.log("timeline").findLast((r) => !this.shown || number(r, "executable") === this.shown);
    if (row) this.show({ start: number(row, "start"), stop: number(row, "stop") });
  }

  private zoom(factor: number): void {
    this.length = Math.min(Math.max(this.length * factor, SHORTEST), LONGEST);
    this.draw();
  }

  private pan(part: number): void {
    this.end = Math.min(this.until() + part * this.length, this.feed.now());
    this.draw();
  }

  /** The item under the pointer: the shortest span, else a transfer, else the steps of a second. */
  private at(event: MouseEvent): Span | Move | Trace | Busy | Absence | null {
    const box = this.canvas.element.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const time = timeOf({ left: this.left, width: box.width, end: this.until(), length: this.length }, px);
    const slack = (3 * this.length) / box.width;
    const within = (s: { start: number; stop: number }): boolean => s.start - slack <= time && time <= s.stop + slack;
    const at = Math.floor((py - TOP) / LANE);
    if (at === this.lanes.length) return this.traces.findLast(within) ?? null;
    const lane = this.lanes[at];
    const hits = lane?.spans.filter((s) => within(s) && (s.kind === "node") !== isInBar(py)) ?? [];
    const [shortest] = hits.sort((a, b) => a.stop - a.start - (b.stop - b.start));
    if (shortest) return shortest;
    const move = this.moves.find((m) => {
      const ends = within(m) ? endsOf(m, this.lanes) : null;
      return ends && py >= Math.min(ends.from, ends.to) - 3 && py <= Math.max(ends.from, ends.to) + 3;
    });
    return move ?? lane?.away.find(within) ?? lane?.busy.find((b) => b.start <= time && time < b.stop) ?? null;
  }

  private listen(): void {
    const e = this.canvas.element;
    e.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !e.matches(":focus")) return;
      event.preventDefault();
      this.end = this.until();
      this.zoom(Math.exp(event.deltaY * 0.002));
    }, { passive: false }); // prettier-ignore
    e.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) {
        this.pan(-event.movementX / Math.max(e.clientWidth - this.left, 1));
        return;
      }
      const span = this.at(event);
      this.tip.hidden = !span;
      if (!span) return;
      setText(this.tip, this.rows.text(span));
      this.tip.style.left = `${Math.max(Math.min(event.offsetX + 12, e.clientWidth - this.tip.offsetWidth - 4), 0)}px`;
      this.tip.style.top = `${event.offsetY + 14}px`;
    });
    e.addEventListener("pointerleave", () => { this.tip.hidden = true; }); // prettier-ignore
    e.addEventListener("click", (event) => {
      const hit = this.at(event);
      const executable = hit && "executable" in hit ? hit.executable : 0;
      if (executable) this.select(executable);
      this.feed.choose(executable ? { executable, node: hit && "node" in hit ? hit.node : -1 } : null);
      this.draw();
    });
    e.addEventListener("dblclick", (event) => {
      const hit = this.at(event);
      if (hit) this.show({ start: hit.start, stop: Math.min(hit.stop, this.feed.now()) });
    });
    e.addEventListener("keydown", (event) => {
      const act: Partial<Record<string, () => void>> = {
        ArrowLeft: () => { this.pan(-0.2); }, ArrowRight: () => { this.pan(0.2); },
        "+": () => { this.zoom(0.5); }, "-": () => { this.zoom(2); }, l: () => { this.showLast(); },
        Escape: () => { this.end = null; this.draw(); },
      }; // prettier-ignore
      const done = act[event.key];
      if (!done) return;
      event.preventDefault();
      done();
    });
  }
}
