/** A histogram of the times of the latest steps. */

import { themeOf, type Theme } from "../colours";
import { seconds } from "../format";
import { Canvas2d } from "./canvas2d";
import { ROUND, roundUp } from "./timeline_picture";

/** number of times at the axis below which times between the round ones are labelled, too */
const FEW = 3;
const MULTIPLES = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10] as const;

const HEIGHT = 104;
/** pixels of a row of labels; of such rows above the bars, and of the axis below them */
const ROW = 13;
const [ABOVE, BELOW] = [3 * ROW + 4, 18];
const [BINS, APART] = [60, 56];
const MARKS = [[0.5, "median"], [0.95, "p95"], [0.99, "p99"]] as const;

/** Counts by time; each bin is longer than the one before by the same factor. */
export interface Bins {
  readonly least: number;
  readonly most: number;
  readonly counts: readonly number[];
}

/** @param times seconds, in ascending order */
export function binsOf(times: readonly number[], count: number): Bins {
  const [first, last] = [times[0]!, times[times.length - 1]!];
  // at least from 2/3 to 3/2 of the middle, so that equal times are one narrow bar
  const middle = Math.sqrt(Math.max(first, 1e-9) * Math.max(last, 1e-9));
  const [least, most] = [Math.min(Math.max(first, 1e-9), middle / 1.5), Math.max(last, middle * 1.5)];
  const counts = Array.from({ length: count }, () => 0);
  const scale = count / Math.log(most / least);
  for (const time of times) {
    const bin = Math.floor(Math.log(Math.max(time, least) / least) * scale);
    counts[Math.min(bin, count - 1)]!++;
  }
  return { least, most, counts };
}

/** The time that the given part of the times does not exceed. */
export function percentile(times: readonly number[], part: number): number {
  return times[Math.min(Math.floor(part * times.length), times.length - 1)]!;
}

/** A line at a time, with a label beside it. */
interface Mark {
  readonly text: string;
  readonly at: number;
  readonly wide: number;
}

/** The place of the label of a mark. */
interface Label {
  readonly left: number;
  readonly row: number;
}

/**
 * Places for labels of marks, which are ordered from left to right: to the right of their lines, or to the left
 * for lack of room. A label that overlaps another one, or a line, is in another row: lines begin at their rows.
 */
export function labelsOf(marks: readonly Mark[], width: number): Label[] {
  let room = width;
  const isLeft = marks.map(() => false);
  for (let i = marks.length - 1; i >= 0; i--) {
    const { at, wide } = marks[i]!;
    isLeft[i] = at + 3 + wide > room;
    room = isLeft[i] ? at - 3 - wide : width;
  }
  const rows = marks.map(() => 0);
  const reach = (i: number): number => marks[i]!.wide + 8;
  for (let i = 1; i < marks.length; i++) {
    if (!isLeft[i] && !isLeft[i - 1] && marks[i - 1]!.at + reach(i - 1) > marks[i]!.at) rows[i] = rows[i - 1]! + 1;
  }
  for (let i = marks.length - 2; i >= 0; i--) {
    if (isLeft[i] && isLeft[i + 1] && marks[i + 1]!.at - reach(i + 1) < marks[i]!.at) rows[i] = rows[i + 1]! + 1;
  }
  return marks.map(({ at, wide }, i) => ({ left: isLeft[i] ? at - 3 - wide : at + 3, row: rows[i]! }));
}

export class StepHistogram {
  private readonly canvas = new Canvas2d(HEIGHT, "distribution of step times");
  readonly element = this.canvas.element;

  /** @param times seconds, in ascending order */
  draw(times: readonly number[]): void {
    this.element.hidden = !times.length;
    const drawing = times.length ? this.canvas.begin() : null;
    if (!drawing) return;
    const { context, width, height } = drawing;
    const theme = themeOf(this.element);
    const bins = binsOf(times, BINS);
    const x = (time: number): number => (Math.log(time / bins.least) / Math.log(bins.most / bins.least)) * width;
    const top = Math.max(...bins.counts);
    context.fillStyle = theme.accent;
    bins.counts.forEach((n, i) => {
      const high = (n / top) * (height - ABOVE - BELOW);
      if (n) context.fillRect((i * width) / BINS, height - BELOW - Math.max(high, 1.5), width / BINS - 1, Math.max(high, 1.5));
    });
    drawAxis(context, theme, bins, x, width, height);
    this.drawMarks(context, theme, times, x, width, height);
    const said = MARKS.map(([part, name]) => `${name} ${seconds(percentile(times, part))}`).join(", ");
    this.element.setAttribute("aria-label", `distribution of the times of ${times.length} steps: ${said}`);
  }

  private drawMarks(
    context: CanvasRenderingContext2D, theme: Theme, times: readonly number[], x: (time: number) => number,
    width: number, height: number,
  ): void {
    const marks = marksOf(times).map(([text, time]) => ({
      text, at: Math.min(x(time), width - 1), wide: context.measureText(text).width,
    }));
    context.strokeStyle = theme.run;
    context.fillStyle = theme.text;
    labelsOf(marks, width).forEach(({ left, row }, i) => {
      const { text, at } = marks[i]!;
      context.beginPath();
      context.moveTo(at, 2 + ROW * row);
      context.lineTo(at, height - BELOW);
      context.stroke();
      context.fillText(text, left, 11 + ROW * row);
    });
  } // prettier-ignore
}

/** Labels and times of the marks; marks with equal texts share a label. */
function marksOf(times: readonly number[]): [text: string, time: number][] {
  const named = new Map<string, [names: string, time: number]>();
  for (const [part, name] of MARKS) {
    const time = percentile(times, part);
    const known = named.get(seconds(time));
    named.set(seconds(time), [known ? `${known[0]}, ${name}` : name, time]);
  }
  return [...named].map(([said, [names, time]]) => [`${names} ${said}`, time]);
}

/** The times that are labelled at the axis: 1, 2 or 5 times a power of ten, and, where these are few, other multiples. */
export function ticksOf(bins: Bins, x: (time: number) => number, width: number): number[] {
  const among = (numbers: readonly number[]): number[] => {
    const ticks: number[] = [];
    for (let time = roundUp(bins.least, numbers); time < bins.most; time = roundUp(time * 1.001, numbers)) {
      const apart = x(time) - (ticks.length ? x(ticks[ticks.length - 1]!) : -Infinity);
      if (apart >= APART && x(time) >= 20 && x(time) <= width - 20) ticks.push(time);
    }
    return ticks;
  };
  const round = among(ROUND);
  return round.length < FEW ? among(MULTIPLES) : round;
}

function drawAxis(
  context: CanvasRenderingContext2D, theme: Theme, bins: Bins, x: (time: number) => number, width: number, height: number,
): void {
  const base = Math.round(height - BELOW) + 0.5;
  context.strokeStyle = theme.line;
  context.fillStyle = theme.soft;
  context.beginPath();
  context.moveTo(0, base);
  context.lineTo(width, base);
  context.stroke();
  context.textAlign = "center";
  for (const time of ticksOf(bins, x, width)) context.fillText(seconds(time), x(time), height - 4);
  context.textAlign = "left";
} // prettier-ignore
