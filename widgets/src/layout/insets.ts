/**
 * Groups that are opened and closed within a layout: the contents of a group take the place of its
 * box, and boxes around make room, but move by at most a part of the view. Where that is too little
 * room, the contents are drawn smaller.
 *
 * Room is made by stretching the picture along both axes from the middle of the box: no two boxes
 * come nearer to each other, each stays on its side of all others, and the box itself stays.
 */

import { edgeKey, type Box, type Contents } from "../graph/contents";
import type { Group } from "../graph/groups";
import { sizeOf } from "./dot";
import { around, frameOf, link, type Layout, type Placed, type Scaled } from "./types";

/** most distance that boxes move when one is opened, relative to the width and the height of the view */
export const FAR = 0.2;
/** pixels between a frame and its contents, and those above the contents, for the name */
const [MARGIN, LABEL] = [10, 22];
/** number of ways tried to divide the distance between the axes */
const WAYS = 8;

/**
 * The remaining boxes at their places; a group that was closed is a box in the middle of its frame.
 * @param opened boxes to keep as well, to be replaced by their contents
 */
export function kept(before: Layout, contents: Contents, opened: readonly Box[]): Layout {
  const boxes = new Map<string, Scaled>();
  for (const box of [...contents.boxes, ...opened]) {
    const at = before.boxes.get(box.id) ?? closed(before, box);
    if (at) boxes.set(box.id, at);
  }
  const clusters = new Map<string, Scaled>();
  for (const { id } of contents.clusters) {
    const at = before.clusters.get(id);
    if (at) clusters.set(id, at);
  }
  const edges = new Map<string, string>();
  for (const edge of contents.edges) {
    const [from, to] = [boxes.get(edge.from.id), boxes.get(edge.to.id)];
    const moved = !before.boxes.has(edge.from.id) || !before.boxes.has(edge.to.id);
    const path = moved ? undefined : before.edges.get(edgeKey(edge));
    if (from && to) edges.set(edgeKey(edge), path ?? link(from, to));
  }
  return { ...before, boxes, clusters, edges };
}

function closed(before: Layout, box: Box): Scaled | undefined {
  const frame = box.group && before.clusters.get(box.group.id);
  if (!frame) return undefined;
  const scale = before.clusters.get(box.home.id)?.scale ?? 1;
  const { width, height } = sizeOf(box);
  return {
    x: frame.x + frame.width / 2, y: frame.y + frame.height / 2,
    width: width * scale, height: height * scale, scale,
  }; // prettier-ignore
}

/** The part of contents within a group, without boxes that are placed elsewhere. */
export function contentsIn(contents: Contents, group: Group, outer: Layout): Contents {
  const within = (home: Group): boolean => {
    for (let g: Group | null = home; g; g = g.parent) if (g === group) return true;
    return false;
  };
  const boxes = contents.boxes.filter((b) => within(b.home) && !outer.boxes.has(b.id));
  const all = new Set(boxes);
  return {
    ...contents, root: group, boxes,
    edges: contents.edges.filter((e) => all.has(e.from) && all.has(e.to)),
    clusters: contents.clusters.filter((g) => g !== group && within(g)),
    beside: new Map([...contents.beside].filter(([box, op]) => all.has(box) && all.has(op))),
  }; // prettier-ignore
}

/**
 * Put the contents of a group in the place of its box.
 * @param whole a layout with that box
 * @param inner the layout of the group's contents
 * @param contents the new contents
 * @param seen the visible part of the picture, by its top left
 */
export function inset(
  whole: Layout, group: Group, inner: Layout, contents: Contents, seen: Placed,
): Layout {
  const outer = { ...whole, boxes: new Map(whole.boxes) };
  const at = whole.boxes.get(group.id)!;
  outer.boxes.delete(group.id);
  const frames = ancestors(group).filter((id) => outer.clusters.has(id));
  const obstacles = [
    ...[...outer.boxes.values()].map(frameOf),
    ...[...outer.clusters].filter(([id]) => !frames.includes(id)).map(([, frame]) => frame),
  ];
  const parents = frames.map((id) => outer.clusters.get(id)!);
  const room = bestRoom(at, inner, sidesOf(frameOf(at), obstacles, parents, at.scale, seen), seen);
  const move = stretch(at, room.pushes);
  const boxes = new Map<string, Scaled>();
  for (const [id, box] of outer.boxes) boxes.set(id, { ...box, ...move(box) });
  const clusters = new Map<string, Scaled>();
  for (const [id, frame] of outer.clusters) clusters.set(id, { ...frame, ...moveFrame(frame, move) });
  clusters.set(group.id, { ...room.frame, scale: room.scale });
  enclose(clusters, [group.id, ...frames]);
  const into = within(inner, room.frame, room.scale);
  for (const [id, box] of inner.boxes) boxes.set(id, scaled(box, into, room.scale));
  for (const [id, frame] of inner.clusters) clusters.set(id, scaled(frame, into, room.scale));
  const edges = edgesOf(contents, { ...outer, boxes }, [[outer, move], [inner, into]]);
  const all = around([...[...boxes.values()].map(frameOf), ...clusters.values()])!;
  const { x: left, y: top, width, height } = all;
  return { engine: outer.engine, flow: outer.flow, left, top, width, height, boxes, clusters, edges };
} // prettier-ignore

function ancestors(group: Group): string[] {
  const ids: string[] = [];
  for (let g = group.parent; g; g = g.parent) ids.push(g.id);
  return ids;
}

// --- available room -------------------------------------------------------------------------------

/** One side of a box that is opened. */
interface Side {
  /** distance by which the frame can grow before it touches anything */
  readonly free: number;
  /** the same distance within the view */
  readonly near: number;
}

interface Pushes {
  readonly left: number;
  readonly right: number;
  readonly up: number;
  readonly down: number;
}

interface Room {
  readonly scale: number;
  readonly frame: Placed;
  readonly pushes: Pushes;
}

type Sides = Readonly<Record<keyof Pushes, Side>>;

function sidesOf(box: Placed, obstacles: readonly Placed[], parents: readonly Placed[], scale: number, seen: Placed): Sides {
  const free = { left: Infinity, right: Infinity, up: Infinity, down: Infinity };
  for (const o of obstacles) {
    // frames around the box grow with it, up to those that hold the other box as well
    const levels = parents.filter((p) => !holds(p, o)).length + 1;
    const [margin, above] = [levels * MARGIN * scale, (levels * LABEL - LABEL + MARGIN) * scale];
    const gaps = {
      left: box.x - o.x - o.width, right: o.x - box.x - box.width,
      up: box.y - o.y - o.height, down: o.y - box.y - box.height,
    }; // prettier-ignore
    for (const side of ["left", "right", "up", "down"] as const) {
      if (gaps[side] < -1) continue;
      free[side] = Math.min(free[side], gaps[side] - (side === "up" ? above : margin));
    }
  }
  const side = (free: number, edge: number): Side => ({ free, near: Math.max(Math.min(free, edge - MARGIN), 0) });
  return {
    left: side(free.left, box.x - seen.x),
    right: side(free.right, seen.x + seen.width - box.x - box.width),
    up: side(free.up, box.y - seen.y),
    down: side(free.down, seen.y + seen.height - box.y - box.height),
  };
}

function holds(frame: Placed, other: Placed): boolean {
  const [x, y] = [other.x + other.width / 2, other.y + other.height / 2];
  return x > frame.x && x < frame.x + frame.width && y > frame.y && y < frame.y + frame.height;
}

/** The division of the distance between the axes with the largest scale, and then the least movement. */
function bestRoom(at: Scaled, inner: Layout, sides: Sides, seen: Placed): Room {
  let best: Room | null = null;
  const far = ({ pushes: p }: Room): number =>
    Math.hypot(Math.max(p.left, p.right) / seen.width, Math.max(p.up, p.down) / seen.height);
  for (let way = 0; way <= WAYS; way++) {
    const angle = (way / WAYS) * (Math.PI / 2);
    const [across, along] = [FAR * Math.cos(angle) * seen.width, FAR * Math.sin(angle) * seen.height];
    const room = roomWithin(at, inner, sides, across, along);
    const larger = best ? room.scale - best.scale : Infinity;
    if (larger > 1e-6 || (larger > -1e-6 && far(room) < far(best!))) best = room;
  }
  return best!;
}

function roomWithin(at: Scaled, inner: Layout, sides: Sides, across: number, along: number): Room {
  const room = (side: Side, allowed: number): number => Math.max(Math.min(side.near, side.free) + allowed, 0);
  const [left, right] = [room(sides.left, across), room(sides.right, across)];
  const [up, down] = [room(sides.up, along), room(sides.down, along)];
  const full = { width: inner.width + 2 * MARGIN, height: inner.height + LABEL + MARGIN };
  const scale = Math.min(at.scale, (at.width + left + right) / full.width, (at.height + up + down) / full.height);
  const [wide, high] = [full.width * scale - at.width, full.height * scale - at.height];
  const [west, east] = share(wide, sides.left, sides.right, left, right);
  const [north, south] = share(high, sides.up, sides.down, up, down);
  const box = frameOf(at);
  const frame = { x: box.x - west, y: box.y - north, width: at.width + west + east, height: at.height + north + south };
  const push = (grown: number, side: Side): number => (grown > 0 ? Math.max(grown - side.free, 0) : 0);
  const pushes = {
    left: push(west, sides.left), right: push(east, sides.right),
    up: push(north, sides.up), down: push(south, sides.down),
  }; // prettier-ignore
  return { scale, frame, pushes };
}

/** Divide the needed room between two sides: first the free room, then evenly, within both limits. */
function share(needed: number, a: Side, b: Side, most: number, other: number): [number, number] {
  if (needed <= 0) return [0, 0];
  const spare = needed - a.near - b.near;
  const even = spare > 0 ? a.near + spare / 2 : between(needed / 2, needed - b.near, a.near);
  const first = between(even, Math.max(needed - other, 0), Math.min(most, needed));
  return [first, needed - first];
}

function between(at: number, least: number, most: number): number {
  return Math.min(Math.max(at, least), most);
}

// --- making room ----------------------------------------------------------------------------------

interface Point {
  readonly x: number;
  readonly y: number;
}

type Move = (at: Point) => Point;

function stretch(at: Placed, { left, right, up, down }: Pushes): Move {
  const shift = (from: number, half: number, before: number, after: number): number => {
    const part = between(from / half, -1, 1);
    return from + part * (part < 0 ? before : after);
  };
  return ({ x, y }) => ({
    x: at.x + shift(x - at.x, at.width / 2, left, right),
    y: at.y + shift(y - at.y, at.height / 2, up, down),
  });
}

function moveFrame(frame: Placed, move: Move): Placed {
  const from = move(frame);
  const to = move({ x: frame.x + frame.width, y: frame.y + frame.height });
  return { x: from.x, y: from.y, width: to.x - from.x, height: to.y - from.y };
}

/** Grow each frame to hold the one before it. */
function enclose(clusters: Map<string, Scaled>, frames: readonly string[]): void {
  frames.slice(1).forEach((id, i) => {
    const [outer, inner] = [clusters.get(id)!, clusters.get(frames[i]!)!];
    const [margin, label] = [MARGIN * outer.scale, LABEL * outer.scale];
    const room = {
      x: inner.x - margin, y: inner.y - label,
      width: inner.width + 2 * margin, height: inner.height + label + margin,
    }; // prettier-ignore
    clusters.set(id, { ...outer, ...around([outer, room])! });
  });
}

/** The move of a layout into a frame: centred, below the frame's name. */
function within(inner: Layout, frame: Placed, scale: number): Move {
  const x = frame.x + (frame.width - inner.width * scale) / 2;
  const spare = frame.height - (inner.height + LABEL + MARGIN) * scale;
  const y = frame.y + LABEL * scale + spare / 2;
  return (at) => ({ x: x + (at.x - inner.left) * scale, y: y + (at.y - inner.top) * scale });
}

function scaled(box: Scaled, into: Move, scale: number): Scaled {
  return { ...into(box), width: box.width * scale, height: box.height * scale, scale: box.scale * scale };
}

/** Edges as in one of the joined layouts, moved with it; other edges are direct. */
function edgesOf(contents: Contents, now: Layout, parts: readonly (readonly [Layout, Move])[]): Map<string, string> {
  const edges = new Map<string, string>();
  for (const edge of contents.edges) {
    const key = edgeKey(edge);
    const ends = [edge.from.id, edge.to.id] as const;
    const [from, to] = [now.boxes.get(ends[0]), now.boxes.get(ends[1])];
    if (!from || !to) continue;
    const part = parts.find(([layout]) => layout.edges.has(key));
    if (!part) {
      edges.set(key, link(from, to));
      continue;
    }
    const [layout, move] = part;
    const [a, b] = [layout.boxes.get(ends[0])!, layout.boxes.get(ends[1])!];
    edges.set(key, movedPath(layout.edges.get(key)!, move, [a, from], [b, to]));
  }
  return edges;
}

/**
 * A moved path. Boxes keep their size when the picture is stretched, so its ends keep their places
 * relative to their boxes, and the points between follow.
 */
function movedPath(path: string, move: Move, first: readonly [Scaled, Scaled], last: readonly [Scaled, Scaled]): string {
  const points = path.split(/[MC ]/).filter(Boolean).map((text) => {
    const [x = 0, y = 0] = text.split(",").map(Number);
    return { x, y };
  }); // prettier-ignore
  const away = (at: Point | undefined, [before, after]: readonly [Scaled, Scaled]): Point => {
    if (!at) return { x: 0, y: 0 };
    const size = after.scale / before.scale;
    const to = move(at);
    return { x: after.x + (at.x - before.x) * size - to.x, y: after.y + (at.y - before.y) * size - to.y };
  };
  const [a, b] = [away(points[0], first), away(points[points.length - 1], last)];
  const texts = points.map((point, i) => {
    const part = i / (points.length - 1);
    const { x, y } = move(point);
    return `${(x + a.x * (1 - part) + b.x * part).toFixed(1)},${(y + a.y * (1 - part) + b.y * part).toFixed(1)}`;
  });
  return texts.length ? `M${texts[0]!}C${texts.slice(1).join(" ")}` : "";
}
