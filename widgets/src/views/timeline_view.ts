/** Steps one after another, in a lane for each thread, with waits and retraces. */

import { NEUTRAL, onTheme, themeOf, type Theme } from "../colours";
import { button, html, KEYS, setText } from "../dom";
import type { Feed } from "../feed/feed";
import { number, type Row } from "../feed/tables";
import { seconds } from "../format";
import { Canvas2d } from "./canvas2d";
import type { View } from "./view";

const LANE = 26;
const TOP = 22;
const LEFT = 74;
const [SHORTEST, LONGEST] = [2e-5, 600];

interface Span {
  readonly executable: number;
  readonly start: number;
  readonly stop: number;
}

export class TimelineView implements View {
  readonly element = html("div", { class: "ef-timeline" });
  private readonly canvas = new Canvas2d(150, "steps over time");
  private readonly summary = html("p", { class: "ef-note ef-summary" });
  private readonly tip = html("div", { class: "ef-tip", hidden: true });
  private readonly follow: HTMLButtonElement;
  private readonly unlisten: () => void;
  /** seconds that are seen, and where they end; null while the newest are followed */
  private length = 10;
  private end: number | null = null;
  private lanes: number[] = [];
  private chosen: Span | null = null;
  private shown = 0;

  constructor(
    private readonly feed: Feed,
    private readonly select: (executable: number) => void,
  ) {
    this.follow = button("follow", "follow what runs now", () => { this.end = null; this.draw(); }); // prettier-ignore
    const tools = html("div", { class: "ef-tools", role: "toolbar", "aria-label": "timeline" },
      button("+", "zoom in", () => { this.zoom(0.5); }),
      button("−", "zoom out", () => { this.zoom(2); }), this.follow, this.summary); // prettier-ignore
    const e = this.canvas.element;
    e.tabIndex = 0;
    for (const [name, value] of Object.entries(KEYS)) e.setAttribute(name, value);
    this.element.append(tools, html("div", { class: "ef-lanes" }, e, this.tip));
    this.listen();
    this.unlisten = onTheme(() => { this.draw(); }); // prettier-ignore
  }

  update(seen: boolean): void {
    if (seen) this.draw();
  }

  resize(): void {
    this.draw();
  }

  dispose(): void {
    this.unlisten();
  }

  /** Steps of this executable stand out. */
  mark(executable: number): void {
    this.shown = executable;
  }

  // --- what is there ---

  private name(executable: number): string {
    const row = this.feed.row("executables", executable);
    return row ? this.feed.name(row, "name") : "graph";
  }

  private rows(): Map<number, Span[]> {
    const lanes = new Map<number, Span[]>();
    for (const row of this.feed.log("timeline")) {
      const thread = number(row, "thread");
      const span = { executable: number(row, "executable"), start: number(row, "start"), stop: number(row, "stop") };
      const known = lanes.get(thread);
      if (known) known.push(span);
      else lanes.set(thread, [span]);
    }
    for (const row of this.feed.list("places")) {
      const thread = number(row, "thread");
      if (!lanes.has(thread)) lanes.set(thread, []);
    }
    return lanes;
  }

  // --- drawing ---

  private draw(): void {
    const lanes = this.rows();
    for (const thread of lanes.keys()) if (!this.lanes.includes(thread)) this.lanes.push(thread);
    this.canvas.element.style.height = `${TOP + LANE * Math.max(this.lanes.length, 2) + 24}px`;
    const drawing = this.canvas.begin();
    setText(this.summary, this.summarise());
    this.follow.disabled = this.end === null;
    if (!drawing) return;
    const { context, width, height } = drawing;
    const theme = themeOf(this.element);
    const end = this.end ?? this.feed.now();
    const x = (time: number): number => LEFT + ((time - end) / this.length + 1) * (width - LEFT);
    this.drawAxis(context, theme, x, end, width, height);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    this.lanes.forEach((thread, i) => {
      this.drawLane(context, theme, x, TOP + i * LANE, lanes.get(thread) ?? [], width);
    });
    this.drawPlaces(context, theme, x);
    this.drawRetraces(context, theme, x, height);
    context.restore();
    context.fillStyle = theme.soft;
    this.lanes.forEach((_, i) => {
      context.fillText(`thread ${i + 1}`, 6, TOP + i * LANE + LANE / 2 + 4);
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
      const text = back ? `−${seconds(back)}` : this.end === null ? "now" : "";
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
      if (right - last < 0.7) continue; // no more than the eye can tell apart
      last = right;
      context.fillStyle = span.executable === this.shown ? theme.accent : NEUTRAL;
      context.globalAlpha = isSame(span, this.chosen) ? 1 : 0.75;
      context.fillRect(left, y + 3, right - left, LANE - 8);
      context.globalAlpha = 1;
      if (right - left > 60) {
        context.fillStyle = theme.ground;
        context.fillText(`${this.name(span.executable)} ${seconds(span.stop - span.start)}`, left + 5, y + LANE / 2 + 3, right - left - 8);
      }
    }
  } // prettier-ignore

  /** What goes on: a step that has not ended, a wait. */
  private drawPlaces(context: CanvasRenderingContext2D, theme: Theme, x: (time: number) => number): void {
    for (const row of this.feed.list("places")) {
      const lane = this.lanes.indexOf(number(row, "thread"));
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
    const times = this.feed.log("timeline").slice(-256).map((r) => number(r, "stop") - number(r, "start"));
    if (!times.length) return "";
    times.sort((a, b) => a - b);
    const at = (part: number): string => seconds(times[Math.min(Math.floor(part * times.length), times.length - 1)]!);
    const retraces = this.feed.log("retraces").filter((row) => !this.isFirst(row));
    const last = retraces[retraces.length - 1];
    const traced = last
      ? ` · traced anew ${retraces.length === 1 ? "once" : `${retraces.length} times`}, last ` +
        `${this.feed.name(last, "name")}: ${this.feed.name(last, "reason")}`
      : "";
    return `last ${times.length} steps: median ${at(0.5)}, p95 ${at(0.95)}, longest ${at(1)}${traced}`;
  }

  // --- moving ---

  private zoom(factor: number): void {
    this.length = Math.min(Math.max(this.length * factor, SHORTEST), LONGEST);
    this.draw();
  }

  private pan(part: number): void {
    this.end = Math.min((this.end ?? this.feed.now()) + part * this.length, this.feed.now());
    this.draw();
  }

  private at(event: MouseEvent): Span | null {
    const box = this.canvas.element.getBoundingClientRect();
    const end = this.end ?? this.feed.now();
    const time = end + ((event.clientX - box.left - LEFT) / (box.width - LEFT) - 1) * this.length;
    const thread = this.lanes[Math.floor((event.clientY - box.top - TOP) / LANE)];
    const slack = (2 * this.length) / box.width;
    const spans = thread === undefined ? [] : this.rows().get(thread) ?? [];
    return spans.find((s) => s.start - slack <= time && time <= s.stop + slack) ?? null;
  }

  private listen(): void {
    const e = this.canvas.element;
    e.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !e.matches(":focus")) return;
      event.preventDefault();
      this.end ??= this.feed.now();
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
      setText(this.tip, `${this.name(span.executable)} ${seconds(span.stop - span.start)}`);
      this.tip.style.left = `${Math.min(event.offsetX + 12, e.clientWidth - 120)}px`;
      this.tip.style.top = `${event.offsetY + 14}px`;
    });
    e.addEventListener("pointerleave", () => { this.tip.hidden = true; }); // prettier-ignore
    e.addEventListener("click", (event) => {
      this.chosen = this.at(event);
      if (this.chosen) this.select(this.chosen.executable);
      this.draw();
    });
    e.addEventListener("keydown", (event) => {
      const act: Partial<Record<string, () => void>> = {
        ArrowLeft: () => { this.pan(-0.2); }, ArrowRight: () => { this.pan(0.2); },
        "+": () => { this.zoom(0.5); }, "-": () => { this.zoom(2); },
        Escape: () => { this.end = null; this.draw(); },
      }; // prettier-ignore
      const done = act[event.key];
      if (!done) return;
      event.preventDefault();
      done();
    });
  }
}

function isSame(a: Span, b: Span | null): boolean {
  return a.start === b?.start && a.executable === b.executable;
}

/** The next round number: 1, 2 or 5 times a power of ten. */
function tick(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((n) => n * power >= least) ?? 10);
}
