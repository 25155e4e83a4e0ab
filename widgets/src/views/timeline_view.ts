/** Steps one after another, in a lane for each thread, with waits and retraces. */

import { deviceColour, NEUTRAL, onTheme, themeOf, type Theme } from "../colours";
import { button, html, KEYS, setText } from "../dom";
import type { Choice, Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { seconds } from "../format";
import { Canvas2d } from "./canvas2d";
import { TimelineRows, type Lane, type Move, type Span } from "./timeline_rows";
import type { View } from "./view";

const LANE = 26;
const TOP = 22;
const LEFT = 74;
const [SHORTEST, LONGEST] = [2e-5, 600];
/** seconds below which single steps are looked at */
const NEAR = 2;
/** the part of the picture that is left free beside what is shown */
const MARGIN = 0.04;

export class TimelineView implements View {
  readonly element = html("div", { class: "ef-timeline" });
  private readonly canvas = new Canvas2d(150, "steps over time");
  private readonly summary = html("p", { class: "ef-note ef-summary" });
  private readonly tip = html("div", { class: "ef-tip", hidden: true });
  private readonly follow: HTMLButtonElement;
  private readonly unlisten: (() => void)[];
  private readonly rows: TimelineRows;
  /** seconds that are seen, and where they end; null while the newest are followed */
  private length = 10;
  private end: number | null = null;
  private lanes: Lane[] = [];
  private moves: Move[] = [];
  private chosen: Choice | null = null;
  private shown = 0;

  constructor(
    private readonly feed: Feed,
    private readonly select: (executable: number) => void,
  ) {
    this.rows = new TimelineRows(feed);
    this.follow = button("follow", "follow what runs now", () => { this.end = null; this.draw(); }); // prettier-ignore
    const tools = html("div", { class: "ef-tools", role: "toolbar", "aria-label": "timeline" },
      button("+", "zoom in", () => { this.zoom(0.5); }),
      button("−", "zoom out", () => { this.zoom(2); }),
      button("last step", "show all of the last step", () => { this.showLast(); }), this.follow, this.summary); // prettier-ignore
    const e = this.canvas.element;
    e.tabIndex = 0;
    for (const [name, value] of Object.entries(KEYS)) e.setAttribute(name, value);
    this.element.append(tools, html("div", { class: "ef-lanes" }, e, this.tip));
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

  /** Steps of this executable stand out. */
  mark(executable: number): void {
    this.shown = executable;
  }

  // --- drawing ---

  private draw(): void {
    const until = this.until();
    this.lanes = this.rows.lanes(until - this.length, until);
    this.moves = this.rows.moves(until - this.length, until);
    this.canvas.element.style.height = `${TOP + LANE * Math.max(this.lanes.length, 2) + 24}px`;
    const drawing = this.canvas.begin();
    setText(this.summary, this.summarise());
    this.follow.disabled = this.end === null;
    if (!drawing) return;
    const { context, width, height } = drawing;
    const theme = themeOf(this.element);
    const end = this.until();
    const x = (time: number): number => LEFT + ((time - end) / this.length + 1) * (width - LEFT);
    this.drawAxis(context, theme, x, end, width, height);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    this.lanes.forEach((lane, i) => {
      this.drawLane(context, theme, x, TOP + i * LANE, lane.spans, width);
    });
    this.drawMoves(context, theme, x, width);
    this.drawPlaces(context, theme, x);
    this.drawRetraces(context, theme, x, height);
    context.restore();
    this.describe(x);
    this.lanes.forEach((lane, i) => {
      const device = lane.key.startsWith("device ");
      context.fillStyle = device ? deviceColour(lane.label) : theme.soft;
      if (device) context.fillRect(0, TOP + i * LANE + 3, 3, LANE - 8);
      context.fillStyle = device ? theme.text : theme.soft;
      context.fillText(lane.label, 8, TOP + i * LANE + LANE / 2 + 4, LEFT - 12);
    });
    if (!this.feed.log("timeline").length && !this.feed.list("places").length) {
      context.fillText("No step has run yet since this looks.", LEFT + 12, TOP + LANE);
    }
  }

  private drawAxis(
    context: CanvasRenderingContext2D, theme: Theme, x: (time: number) => number,
    end: number, width: number, height: number,
  ): void {
    const step = tick(this.length * (90 / Math.max(width - LEFT, 1)));
    context.strokeStyle = theme.line;
    context.fillStyle = theme.soft;
    for (let back = 0; back <= this.length; back += step) {
      const at = Math.round(x(end - back)) + 0.5;
      context.beginPath();
      context.moveTo(at, TOP - 6);
      context.lineTo(at, height - 16);
      context.stroke();
      context.textAlign = back ? "center" : "right";
      const text = back ? `−${seconds(back)}` : this.end === null && this.length >= NEAR ? "now" : "";
      if (at > LEFT + 24) context.fillText(text, back ? at : at - 2, 12);
    }
    context.textAlign = "left";
  } // prettier-ignore

  private drawLane(
    context: CanvasRenderingContext2D, theme: Theme, x: (time: number) => number, y: number,
    spans: readonly Span[], width: number,
  ): void {
    let last = -1;
    for (const span of spans) {
      const [a, b] = [x(span.start), x(span.stop)];
      if (b < LEFT || a > width) continue;
      const [left, right] = [Math.max(a, LEFT), Math.max(b, a + 1)];
      const chosen = this.isChosen(span);
      if (right - last < 0.7 && !chosen) continue; // no more than the eye can tell apart
      last = right;
      this.drawSpan(context, theme, span, left, right - left, y, chosen);
    }
  } // prettier-ignore

  private drawSpan(
    context: CanvasRenderingContext2D, theme: Theme, span: Span, left: number, wide: number, y: number,
    chosen: boolean,
  ): void {
    if (span.kind === "node") {
      // where a thread was seen, below the step: a place, and no time
      context.fillStyle = chosen ? theme.run : theme.soft;
      context.fillRect(left, y + LANE - 5, Math.max(wide, 2), 3);
      return;
    }
    const waits = span.kind === "wait";
    context.fillStyle = waits ? theme.warn
      : span.kind === "region" ? span.colour : span.executable === this.shown ? theme.accent : NEUTRAL; // prettier-ignore
    context.globalAlpha = waits ? 0.35 : chosen ? 1 : 0.75;
    context.fillRect(left, y + 3, wide, LANE - 8);
    context.globalAlpha = 1;
    if (chosen) {
      context.strokeStyle = theme.run;
      context.lineWidth = 2;
      context.strokeRect(left, y + 3, Math.max(wide, 2), LANE - 8);
      context.lineWidth = 1;
    }
    if (wide > 60) {
      context.fillStyle = theme.text; // on all devices' colours, light and dark
      context.fillText(this.rows.text(span), left + 5, y + LANE / 2 + 3, wide - 8);
    }
  } // prettier-ignore

  /** Transfers as arrows, from the lane of one device to that of another. */
  private drawMoves(
    context: CanvasRenderingContext2D, theme: Theme, x: (time: number) => number, width: number,
  ): void {
    let last = -1;
    for (const move of this.moves) {
      const [from, to] = this.endsOf(move);
      const [a, b] = [x(move.start), x(move.stop)];
      const chosen = this.isChosen(move);
      if (from === null || to === null || b < LEFT || a > width || (b - last < 2 && !chosen)) continue;
      last = b;
      const down = to > from ? 1 : -1;
      context.strokeStyle = context.fillStyle = chosen ? theme.run : theme.text;
      context.lineWidth = chosen ? 2.5 : 1.2;
      context.beginPath();
      context.moveTo(a, from);
      context.lineTo(b, to - 6 * down);
      context.stroke();
      context.beginPath();
      context.moveTo(b - 3.5, to - 7 * down);
      context.lineTo(b + 3.5, to - 7 * down);
      context.lineTo(b, to);
      context.fill();
      context.lineWidth = 1;
    }
  } // prettier-ignore

  /** The heights at which an arrow begins and ends: the middles of its lanes. */
  private endsOf(move: Move): [from: number | null, to: number | null] {
    const at = (device: string): number => this.lanes.findIndex((l) => l.key === `device ${device}`);
    const [from, to] = [at(move.origin), at(move.device)];
    if (from < 0 || to < 0 || from === to) return [null, null];
    const middle = (lane: number): number => TOP + lane * LANE + LANE / 2 - 1;
    return [middle(from), middle(to)];
  }

  /** What is drawn, for readers of screens; and where arrows are, as pictures have no elements. */
  private describe(x: (time: number) => number): void {
    const { element } = this.canvas;
    const lanes = this.lanes.map((lane) => lane.label);
    const arrows = this.moves.flatMap((move) => {
      const [from, to] = this.endsOf(move);
      const middle = (x(move.start) + x(move.stop)) / 2;
      return from === null || to === null || middle < LEFT ? [] : [`${middle.toFixed(1)},${((from + to) / 2).toFixed(1)}`];
    });
    const chosen = this.moves.filter((m) => this.isChosen(m)).length;
    const label = `steps over time, in lanes: ${lanes.join(", ")}; ${this.moves.length} transfers`;
    if (element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
    element.dataset["lanes"] = lanes.join();
    element.dataset["moves"] = arrows.slice(0, 100).join(" ");
    element.dataset["chosen"] = String(chosen);
  }

  private isChosen(of: Span | Move): boolean {
    const { chosen } = this;
    return chosen !== null && chosen.executable === of.executable && chosen.node >= 0 && chosen.node === of.node;
  }

  /** What goes on: a step that has not ended, a wait. */
  private drawPlaces(context: CanvasRenderingContext2D, theme: Theme, x: (time: number) => number): void {
    for (const row of this.feed.list("places")) {
      const lane = this.lanes.findIndex((l) => l.key === `thread ${number(row, "thread")}`);
      if (lane < 0) continue;
      const waits = this.feed.name(row, "doing") === "waits";
      const [a, b] = [Math.max(x(number(row, "since")), LEFT), x(this.feed.now())];
      const y = TOP + lane * LANE;
      context.strokeStyle = waits ? theme.warn : NEUTRAL;
      context.setLineDash(waits ? [4, 3] : []);
      context.strokeRect(a, y + 3.5, Math.max(b - a, 2), LANE - 9);
      context.setLineDash([]);
      context.fillStyle = theme.text;
      const text = waits ? `waits for ${this.feed.name(row, "queue")}` : "runs";
      if (b - a > 50) context.fillText(text, a + 5, y + LANE / 2 + 3, b - a - 8);
    }
  }

  private drawRetraces(
    context: CanvasRenderingContext2D, theme: Theme, x: (time: number) => number, height: number,
  ): void {
    for (const row of this.feed.log("retraces")) {
      context.fillStyle = this.isFirst(row) ? theme.soft : theme.error;
      const at = x(number(row, "start"));
      if (at < LEFT) continue;
      context.fillRect(at, TOP - 8, 1.5, height - TOP - 8);
      context.beginPath();
      context.moveTo(at - 4, height - 10);
      context.lineTo(at + 5, height - 10);
      context.lineTo(at + 0.5, height - 18);
      context.fill();
    }
  } // prettier-ignore

  /** Whether a trace is the first of its function: that is no fault. */
  private isFirst(row: Row): boolean {
    return this.feed.name(row, "reason") === "the first call";
  }

  private summarise(): string {
    const times = this.rows.newest(this.shown);
    if (!times.length) return "";
    times.sort((a, b) => a - b);
    const at = (part: number): string => seconds(times[Math.min(Math.floor(part * times.length), times.length - 1)]!);
    const retraces = this.feed.log("retraces").filter((row) => !this.isFirst(row));
    const last = retraces[retraces.length - 1];
    const traced = last
      ? ` · traced anew ${retraces.length === 1 ? "once" : `${retraces.length} times`}, last ` +
        `${this.feed.name(last, "name")}: ${this.feed.name(last, "reason")}`
      : "";
    const of = this.shown ? ` of ${this.rows.graphOf(this.shown)}` : "";
    return `last ${times.length} steps${of}: median ${at(0.5)}, p95 ${at(0.95)}, longest ${at(1)}${traced}`;
  }

  // --- moving ---

  /** The time at the right edge. What is told is told late, so that near up it is the last step's end. */
  private until(): number {
    if (this.end !== null) return this.end;
    const last = this.feed.log("timeline").at(-1);
    return this.length < NEAR && last ? number(last, "stop") + this.length * MARGIN : this.feed.now();
  }

  /** Show all of something. */
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

  /** What lies under the pointer: a transfer, else the shortest span. */
  private at(event: MouseEvent): Span | Move | null {
    const box = this.canvas.element.getBoundingClientRect();
    const end = this.until();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const time = end + ((px - LEFT) / (box.width - LEFT) - 1) * this.length;
    const slack = (3 * this.length) / box.width;
    const within = (s: Span | Move): boolean => s.start - slack <= time && time <= s.stop + slack;
    const move = this.moves.find((m) => {
      const [from, to] = this.endsOf(m);
      return from !== null && to !== null && within(m) && py >= Math.min(from, to) - 3 && py <= Math.max(from, to) + 3;
    });
    if (move) return move;
    const lane = this.lanes[Math.floor((py - TOP) / LANE)];
    const hits = lane?.spans.filter(within) ?? [];
    const low = py - TOP - Math.floor((py - TOP) / LANE) * LANE > LANE - 7;
    const seen = hits.filter((s) => (s.kind === "node") === low);
    return (seen.length ? seen : hits).sort((a, b) => a.stop - a.start - (b.stop - b.start))[0] ?? null;
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
        this.pan(-event.movementX / Math.max(e.clientWidth - LEFT, 1));
        return;
      }
      const span = this.at(event);
      this.tip.hidden = !span;
      if (!span) return;
      setText(this.tip, this.rows.text(span));
      this.tip.style.left = `${Math.min(event.offsetX + 12, e.clientWidth - 120)}px`;
      this.tip.style.top = `${event.offsetY + 14}px`;
    });
    e.addEventListener("pointerleave", () => { this.tip.hidden = true; }); // prettier-ignore
    e.addEventListener("click", (event) => {
      const hit = this.at(event);
      if (hit?.executable) this.select(hit.executable);
      this.feed.choose(hit && { executable: hit.executable, node: hit.node });
      this.draw();
    });
    e.addEventListener("dblclick", (event) => {
      const hit = this.at(event);
      if (hit) this.show(hit);
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

/** The next round number: 1, 2 or 5 times a power of ten. */
function tick(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((n) => n * power >= least) ?? 10);
}
