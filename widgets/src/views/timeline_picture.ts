/** Drawing of a part of a timeline: an axis, lanes with spans, transfers, traces. */

import { deviceColour, NEUTRAL, type Theme } from "../colours";
import { SAID } from "../feed/tasks";
import { seconds } from "../format";
import type { Busy, Lane, Move, Span, SpanKind, TimelineRows, Trace } from "./timeline_rows";

export const [LANE, TOP, FOOT] = [28, 22, 8];
/** free pixels of a lane above and below its bar: heads of arrows fit between lanes */
const [ABOVE, BELOW] = [4, 6];
const BAR = LANE - ABOVE - BELOW;
/** pixels of an arrow's head, and width below which a span has no text */
const [HEAD, NARROW] = [7, 60];
/** pixels from the previous transfer below which a transfer is a faint line */
const CROWDED = 9;

/** colour of steps of functions other than the chosen one */
const OTHERS = "#7f9aa8";

/** The mapping from time to pixels. */
export interface Scale {
  /** pixels for the names of lanes */
  readonly left: number;
  readonly width: number;
  /** the time at the right edge, and the visible seconds */
  readonly end: number;
  readonly length: number;
}

export function xOf(scale: Scale, time: number): number {
  return scale.left + ((time - scale.end) / scale.length + 1) * (scale.width - scale.left);
}

export function timeOf(scale: Scale, x: number): number {
  return scale.end + ((x - scale.left) / (scale.width - scale.left) - 1) * scale.length;
}

/** An unfinished step, or an open wait. */
export interface Place {
  readonly lane: string;
  readonly since: number;
  readonly text: string;
  readonly waits: boolean;
}

/** A transfer in pixels. */
interface Arrow {
  readonly a: number;
  readonly b: number;
  readonly ends: Ends;
  readonly chosen: boolean;
}

export class TimelinePicture {
  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly theme: Theme,
    private readonly scale: Scale,
    private readonly rows: TimelineRows,
    private readonly lanes: readonly Lane[],
  ) {}

  /** Draw within the area of times, clipped at the names of lanes. */
  within(draw: () => void): void {
    const { context, scale } = this;
    context.save();
    context.beginPath();
    context.rect(scale.left, 0, scale.width - scale.left, context.canvas.clientHeight);
    context.clip();
    draw();
    context.restore();
  }

  drawAxis(height: number, now: string): void {
    const { context, theme, scale } = this;
    const step = roundUp(scale.length * (90 / Math.max(scale.width - scale.left, 1)));
    context.strokeStyle = theme.line;
    context.fillStyle = theme.soft;
    for (let back = 0; back <= scale.length; back += step) {
      const at = Math.round(xOf(scale, scale.end - back)) + 0.5;
      this.line(at, TOP - 6, at, height - FOOT);
      context.textAlign = back ? "center" : "right";
      if (at > scale.left + 24) context.fillText(back ? `−${seconds(back)}` : now, back ? at : at - 2, 12);
    }
    context.textAlign = "left";
  }

  /** Draw the steps, regions and waits of a lane, and below them the nodes at which threads were seen. */
  drawLane(at: number, shown: number, isChosen: (of: Span) => boolean): void {
    const { scale } = this;
    const { busy, spans } = this.lanes[at]!;
    for (const part of busy) this.drawBusy(part, top(at), shown);
    const drawn = new Map<SpanKind, readonly [left: number, right: number]>();
    for (const span of spans) {
      const [a, b] = [xOf(scale, span.start), xOf(scale, span.stop)];
      if (b < scale.left || a > scale.width) continue;
      const [left, right] = [Math.max(a, scale.left), Math.max(b, a + 1)];
      const chosen = isChosen(span);
      const [first, last] = drawn.get(span.kind) ?? [Infinity, -Infinity];
      if (left >= first && right - last < 0.7 && !chosen) continue; // indistinguishable from the one before
      drawn.set(span.kind, [left, right]);
      this.drawSpan(span, left, right - left, top(at), shown, chosen);
    }
  }

  /** Draw the times in which the task of a lane was missing: hatched, from a line on. */
  drawAway(at: number): void {
    const { context, theme, scale } = this;
    for (const { health, start, stop } of this.lanes[at]!.away) {
      const [a, b] = [xOf(scale, start), Math.min(xOf(scale, stop), scale.width)];
      const left = Math.max(a, scale.left);
      if (b < left) continue;
      const colour = { lost: theme.error, suspect: theme.warn, gone: theme.soft }[health];
      context.fillStyle = context.strokeStyle = colour;
      context.globalAlpha = 0.14;
      context.fillRect(left, top(at) + ABOVE, b - left, BAR);
      context.globalAlpha = 0.35;
      this.hatch(left, b, top(at) + ABOVE);
      context.globalAlpha = 1;
      context.fillRect(a - 1, top(at) + ABOVE - 2, 2, BAR + 4);
      if (b - left > 30) this.label(SAID[health], left + 6, top(at), b - left - 8, colour);
    }
  }

  private hatch(left: number, right: number, y: number): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(left, y, right - left, BAR);
    context.clip();
    for (let x = left - (left % 7) - BAR; x < right; x += 7) this.line(x, y + BAR, x + BAR, y);
    context.restore();
  }

  /** Write a text over hatching, on a background. */
  private label(text: string, x: number, y: number, room: number, colour: string): void {
    const { context, theme } = this;
    const wide = Math.min(context.measureText(text).width, room);
    context.fillStyle = theme.ground;
    context.globalAlpha = 0.85;
    context.fillRect(x - 3, y + ABOVE + 2, wide + 6, BAR - 4);
    context.globalAlpha = 1;
    this.write(text, x, y, room, colour);
  }

  /** Draw the busy part of each second behind single steps, not all of which are reported. */
  private drawBusy(part: Busy, y: number, shown: number): void {
    const { context, scale } = this;
    const [a, b] = [xOf(scale, part.start), xOf(scale, part.stop)];
    const high = BAR * part.share;
    context.fillStyle = part.executable === shown ? this.theme.accent : OTHERS;
    context.globalAlpha = 0.2;
    context.fillRect(a, y + ABOVE + BAR - high, Math.max(b - a - 0.5, 0.5), high);
    context.globalAlpha = 1;
  }

  private drawSpan(span: Span, left: number, wide: number, y: number, shown: number, chosen: boolean): void {
    const { context, theme } = this;
    if (span.kind === "node") {
      // a node at which a thread was seen, below the step; its length is no time
      context.fillStyle = chosen ? theme.run : theme.soft;
      context.fillRect(left, y + ABOVE + BAR + 1, Math.max(wide, 2), 3);
      return;
    }
    const waits = span.kind === "wait";
    const step = span.executable === shown ? theme.accent : OTHERS;
    if (waits) {
      // clears the step that the wait is part of
      context.fillStyle = theme.ground;
      context.fillRect(left, y + ABOVE, wide, BAR);
    }
    context.fillStyle = waits ? theme.warn : span.kind === "region" ? span.colour : step;
    context.globalAlpha = waits ? 0.45 : chosen ? 1 : 0.75;
    context.fillRect(left, y + ABOVE, wide, BAR);
    context.globalAlpha = 1;
    if (chosen) this.frame(left, y, wide, theme.run);
    if (wide > NARROW) this.write(this.rows.text(span), left + 5, y, wide - 8);
  }

  private frame(left: number, y: number, wide: number, colour: string): void {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(left, y + ABOVE, Math.max(wide, 2), BAR);
    context.lineWidth = 1;
  }

  /** Draw an unfinished step or an open wait. */
  drawPlace(place: Place, now: number): void {
    const { context, theme, scale } = this;
    const lane = this.lanes.findIndex((l) => l.key === place.lane);
    if (lane < 0) return;
    const [a, b] = [Math.max(xOf(scale, place.since), scale.left), xOf(scale, now)];
    context.strokeStyle = place.waits ? theme.warn : NEUTRAL;
    context.setLineDash(place.waits ? [4, 3] : []);
    context.strokeRect(a, top(lane) + ABOVE + 0.5, Math.max(b - a, 2), BAR - 1);
    context.setLineDash([]);
    if (b - a > NARROW) this.write(place.text, a + 5, top(lane), b - a - 8);
  }

  /** Draw transfers as arrows between the lanes of their devices; bars are drawn over them. */
  drawMoves(moves: readonly Move[], isChosen: (of: Move) => boolean): void {
    const links = new Map<string, Arrow[]>();
    for (const move of moves) {
      const arrow = this.arrowOf(move, isChosen(move));
      const key = `${move.origin} ${move.device}`;
      if (!arrow) continue;
      const known = links.get(key);
      if (known) known.push(arrow);
      else links.set(key, [arrow]);
    }
    for (const arrows of links.values()) this.drawLink(arrows);
  }

  /** The arrow of a transfer; null if it is not visible. */
  private arrowOf(move: Move, chosen: boolean): Arrow | null {
    const { scale } = this;
    const ends = endsOf(move, this.lanes);
    const [a, b] = [xOf(scale, move.start), xOf(scale, move.stop)];
    return !ends || b < scale.left || a > scale.width ? null : { a, b, ends, chosen };
  }

  /** Draw the transfers between two devices: those close to others are faint, and some are left out. */
  private drawLink(arrows: readonly Arrow[]): void {
    let last = -Infinity;
    arrows.forEach(({ a, b, ends, chosen }, i) => {
      if (b - last < 2 && !chosen) return;
      const isCrowded = b - last < CROWDED || (arrows[i + 1]?.b ?? Infinity) - b < CROWDED;
      this.arrow(a, b, ends, chosen ? "chosen" : isCrowded ? "bare" : "plain");
      last = b;
    });
  }

  private arrow(a: number, b: number, { from, to }: Ends, look: "chosen" | "plain" | "bare"): void {
    const { context, theme } = this;
    const head = to > from ? HEAD : -HEAD;
    context.strokeStyle = context.fillStyle = look === "chosen" ? theme.run : theme.text;
    context.lineWidth = { chosen: 2.5, plain: 1.2, bare: 1 }[look];
    context.globalAlpha = { chosen: 1, plain: 0.85, bare: 0.3 }[look];
    this.line(a, from, b, look === "bare" ? to : to - head);
    if (look !== "bare") this.triangle(b, to, head);
    context.lineWidth = context.globalAlpha = 1;
  }

  /** Draw traces in a lane below all others: first calls hollow, retraces filled, narrow where there are many. */
  drawTraces(traces: readonly Trace[]): void {
    const { context, theme, scale } = this;
    const y = top(this.lanes.length);
    traces.forEach((trace, i) => {
      const [a, b] = [xOf(scale, trace.start), xOf(scale, trace.stop)];
      const next = traces[i + 1] ? xOf(scale, traces[i + 1]!.start) : scale.width;
      const wide = Math.max(b - a, Math.min(5, Math.max(next - a - 1, 1)));
      context.fillStyle = context.strokeStyle = trace.isFirst ? theme.soft : theme.error;
      if (trace.isFirst) context.strokeRect(a, y + ABOVE + 0.5, wide, BAR - 1);
      else context.fillRect(a, y + ABOVE, wide, BAR);
      const room = next - a - wide - 8;
      if (room > 40) this.write(trace.name, a + wide + 4, y, room);
    });
  }

  drawNames(hasTraces: boolean): void {
    const { context, theme, scale } = this;
    this.lanes.forEach((lane, i) => {
      const isDevice = lane.key.startsWith("device ");
      context.fillStyle = deviceColour(lane.label);
      if (isDevice) context.fillRect(0, top(i) + ABOVE, 3, BAR);
      const away = lane.away.find((a) => a.stop === Infinity)?.health;
      const colour = away === "lost" ? theme.error : away === "suspect" ? theme.warn : isDevice && !away ? theme.text : theme.soft;
      this.writeName(lane.label, top(i), colour);
    });
    if (hasTraces) this.write("traces", 8, top(this.lanes.length), scale.left - 12, theme.soft);
  }

  /** Write the name of a lane; one that does not fit in a line takes two, parted at a space. */
  private writeName(name: string, y: number, colour: string): void {
    const room = this.scale.left - 12;
    const at = name.indexOf(" ");
    if (at < 0 || this.context.measureText(name).width <= room) {
      this.write(name, 8, y, room, colour);
      return;
    }
    this.write(name.slice(0, at), 8, y - 6, room, colour);
    this.write(name.slice(at + 1), 8, y + 6, room, colour);
  }

  /** Write a text in a lane, cut to the room there is. */
  private write(text: string, x: number, y: number, room: number, colour = this.theme.text): void {
    this.context.fillStyle = colour;
    const shown = fitting(this.context, text, room);
    if (shown) this.context.fillText(shown, x, y + ABOVE + BAR / 2 + 4);
  }

  private line(x0: number, y0: number, x1: number, y1: number): void {
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.lineTo(x1, y1);
    this.context.stroke();
  }

  private triangle(x: number, y: number, height: number): void {
    this.context.beginPath();
    this.context.moveTo(x - 3.5, y - height);
    this.context.lineTo(x + 3.5, y - height);
    this.context.lineTo(x, y);
    this.context.fill();
  }
}

function top(lane: number): number {
  return TOP + lane * LANE;
}

/** The heights at which an arrow begins and ends. */
export interface Ends {
  readonly from: number;
  readonly to: number;
}

/** The ends of an arrow, at the edges of the bars of both lanes; null if a lane is missing. */
export function endsOf(move: Move, lanes: readonly Lane[]): Ends | null {
  const at = (device: string): number => lanes.findIndex((l) => l.key === `device ${device}`);
  const [from, to] = [at(move.origin), at(move.device)];
  if (from < 0 || to < 0 || from === to) return null;
  const [first, last] = [top(from) + ABOVE, top(to) + ABOVE];
  return from < to ? { from: first + BAR, to: last } : { from: first, to: last + BAR };
}

/** The height at which an arrow is pressed: its head, over which nothing is drawn. */
export function headOf({ from, to }: Ends): number {
  return to - Math.sign(to - from) * (HEAD / 2);
}

/** Whether a height is within the bar of a lane, and not between lanes. */
export function isInBar(y: number): boolean {
  const within = (y - TOP) % LANE;
  return within >= ABOVE && within <= ABOVE + BAR;
}

/** A text cut to fit, with an ellipsis; empty if too little of it fits. */
export function fitting(context: CanvasRenderingContext2D, text: string, room: number): string {
  const wide = context.measureText(text).width;
  if (wide <= room) return text;
  const letters = Math.floor((text.length * room) / wide) - 1;
  return letters < 2 ? "" : `${text.slice(0, letters)}…`;
}

/** The multiples of powers of ten that are round. */
export const ROUND: readonly number[] = [1, 2, 5, 10];

/** The next round number. */
export function roundUp(least: number, numbers: readonly number[] = ROUND): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * (numbers.find((n) => n * power >= least) ?? 10);
}
