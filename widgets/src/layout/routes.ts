/** Paths from box to box that avoid other boxes: a line behind a box would seem to come from it. */

import { frameOf, type Placed } from "./types";

/** number of sampled points along a path */
const PLACES = 24;
/** pixels between a path and other boxes */
const OFF = 3;
/** cost, in pixels of length, of a point within another box, and of an end at the top or foot of a box */
const [HIDDEN, TURNED] = [60, 40];
/** least length of the straight piece of a path at a box, in pixels */
const STRAIGHT = 34;

type Point = readonly [x: number, y: number];
/** An end of a path at the edge of a box, and its direction. */
type End = readonly [at: Point, ahead: Point, isTurned: boolean];
type Curve = readonly [Point, Point, Point, Point];

/**
 * The path that is hidden least, and of such paths the shortest: from the side that faces the other box, or
 * from the top or the foot.
 * @param boxes all boxes, by their frames; those at the ends do not count
 */
export function route(from: Placed, to: Placed, boxes: readonly Placed[]): string {
  const ends = [frameOf(from), frameOf(to)];
  const others = boxes.filter((box) => !ends.some((end) => end.x === box.x && end.y === box.y));
  let best: Curve | null = null;
  let least = Infinity;
  for (const [a, aheadA, turnedA] of endsOf(from, to)) {
    for (const [b, aheadB, turnedB] of endsOf(to, from)) {
      const curve: Curve = [a, aheadA, aheadB, b];
      const [length, hidden] = look(curve, others);
      const price = length + HIDDEN * hidden + TURNED * (Number(turnedA) + Number(turnedB));
      if (price < least) [best, least] = [curve, price];
      if (!hidden && !turnedA && !turnedB) return pathOf(curve); // the first one, in most cases
    }
  }
  return pathOf(best!);
}

function pathOf(curve: Curve): string {
  const [start, ...rest] = curve.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
  return `M${start!}C${rest.join(" ")}`;
}

function endsOf(box: Placed, other: Placed): End[] {
  const side = other.x > box.x ? 1 : -1;
  const [x, reach] = [box.x + (side * box.width) / 2, Math.max(Math.abs(other.x - box.x) - box.width, 2 * STRAIGHT) / 2];
  const turned = [-1, 1].map((up): End => {
    const y = box.y + (up * box.height) / 2;
    return [[box.x, y], [box.x + side * STRAIGHT, y + up * STRAIGHT], true];
  });
  return [[[x, box.y], [x + side * reach, box.y], false], ...turned];
}

/** The length of a path, and the number of its points within boxes. */
function look(curve: Curve, boxes: readonly Placed[]): readonly [length: number, hidden: number] {
  let [length, hidden] = [0, 0];
  let before = curve[0];
  for (let i = 1; i <= PLACES; i++) {
    const at = pointAt(curve, i / PLACES);
    length += Math.hypot(at[0] - before[0], at[1] - before[1]);
    hidden += Number(boxes.some((box) => isIn(box, at)));
    before = at;
  }
  return [length, hidden];
}

function pointAt(curve: Curve, t: number): Point {
  const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  const sum = (axis: 0 | 1): number => curve.reduce((all, point, i) => all + point[axis] * weights[i]!, 0);
  return [sum(0), sum(1)];
}

function isIn(box: Placed, [x, y]: Point): boolean {
  return x > box.x - OFF && x < box.x + box.width + OFF && y > box.y - OFF && y < box.y + box.height + OFF;
}
