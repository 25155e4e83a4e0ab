/** Layouts: places of boxes, edges and clusters, in pixels of the picture. */

export interface Placed {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** The size of a view, in pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

/** The direction in which a graph is drawn: downwards, or to the right. */
export type Flow = "down" | "right";

export interface Scaled extends Placed {
  /** scale relative to full size: contents of groups opened later may be smaller */
  readonly scale: number;
}

export interface Layout {
  readonly engine: "graphviz" | "layered";
  readonly flow: Flow;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  /** middle and size of each box, by identifier */
  readonly boxes: ReadonlyMap<string, Scaled>;
  /** top left and size of each cluster, by identifier; the scale is that of its contents */
  readonly clusters: ReadonlyMap<string, Scaled>;
  /** paths of SVG, made of curves, by the keys of edges */
  readonly edges: ReadonlyMap<string, string>;
}

/** The largest scale at which a picture fits into a view. */
export function scaleIn(layout: Size, room: Size): number {
  return Math.min(room.width / Math.max(layout.width, 1), room.height / Math.max(layout.height, 1));
}

/** The rectangle of a placed box, by its top left. */
export function frameOf(box: Placed): Placed {
  return { ...box, x: box.x - box.width / 2, y: box.y - box.height / 2 };
}

/** The bounding rectangle of others, by its top left; null if there are none. */
export function around(frames: readonly Placed[]): Placed | null {
  if (!frames.length) return null;
  const [x, y] = [Math.min(...frames.map((f) => f.x)), Math.min(...frames.map((f) => f.y))];
  const right = Math.max(...frames.map((f) => f.x + f.width));
  const bottom = Math.max(...frames.map((f) => f.y + f.height));
  return { x, y, width: right - x, height: bottom - y };
}

/** A path from box to box, between the sides that face each other. */
export function link(from: Placed, to: Placed): string {
  const [a, b] = [frameOf(from), frameOf(to)];
  const down = b.y >= a.y + a.height;
  if (!down && b.y + b.height > a.y) return across(from, to);
  const [y0, y1] = down ? [a.y + a.height, b.y] : [a.y, b.y + b.height];
  const middle = (y0 + y1) / 2;
  return path([from.x, y0], [from.x, middle], [to.x, middle], [to.x, y1]);
}

/** A path from box to box, between the left and right sides that face each other. */
function across(from: Placed, to: Placed): string {
  const [a, b] = [frameOf(from), frameOf(to)];
  const [x0, x1] = to.x > from.x ? [a.x + a.width, b.x] : [a.x, b.x + b.width];
  const middle = (x0 + x1) / 2;
  return path([x0, from.y], [middle, from.y], [middle, to.y], [x1, to.y]);
}

function path(...points: [number, number][]): string {
  const [first, ...rest] = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`);
  return `M${first!}C${rest.join(" ")}`;
}
