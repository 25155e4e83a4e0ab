/** Graphs over several devices: a column for each device, in their order, with transfers between columns. */

import { edgeKey, type Box, type Contents } from "../graph/contents";
import type { Group } from "../graph/groups";
import { route } from "./routes";
import { around, frameOf, type Layout, type Placed, type Scaled } from "./types";

/** pixels between columns, through which most transfers go */
const GAP = 48;

/** The contents of each device, each laid out by itself; empty for one device, or without groups by device. */
export function columnsOf(contents: Contents): Contents[] {
  const columns = new Map<Box, string>();
  for (const box of contents.boxes) {
    const device = deviceOf(box);
    if (device) columns.set(box, device.name);
  }
  const names = [...new Set(columns.values())].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  if (names.length < 2) return [];
  placeOthers(contents, columns, names[0]!);
  return names.map((name) => {
    const isIn = (box: Box): boolean => columns.get(box) === name;
    return {
      ...contents,
      boxes: contents.boxes.filter(isIn),
      edges: contents.edges.filter((e) => isIn(e.from) && isIn(e.to)),
      clusters: contents.clusters.filter((g) => contents.boxes.some((b) => isIn(b) && isWithin(b.home, g))),
      beside: new Map([...contents.beside].filter(([box, op]) => isIn(box) && isIn(op))),
    };
  });
}

function deviceOf(box: Box): Group | null {
  for (let g: Group | null = box.group ?? box.home; g; g = g.parent) if (g.kind === "device") return g;
  return null;
}

function isWithin(home: Group, group: Group): boolean {
  for (let g: Group | null = home; g; g = g.parent) if (g === group) return true;
  return false;
}

/** Put boxes without a device, such as inputs and outputs, beside a neighbour with a device. */
function placeOthers(contents: Contents, columns: Map<Box, string>, first: string): void {
  for (let progress = true; progress; ) {
    progress = false;
    for (const { from, to } of contents.edges) {
      const [a, b] = [columns.get(from), columns.get(to)];
      if ((a === undefined) === (b === undefined)) continue;
      columns.set(a === undefined ? from : to, (a ?? b)!);
      progress = true;
    }
  }
  for (const box of contents.boxes) if (!columns.has(box)) columns.set(box, first);
}

/** Put columns side by side, with the tops of the devices at the same height. */
export function sideBySide(columns: readonly Contents[], layouts: readonly Layout[], contents: Contents): Layout {
  const boxes = new Map<string, Scaled>();
  const clusters = new Map<string, Scaled>();
  const edges = new Map<string, string>();
  const heads = columns.map((column, i) => headOf(column, layouts[i]!));
  const top = Math.max(...heads);
  let x = 0;
  layouts.forEach((layout, i) => {
    const [right, down] = [x - layout.left, top - heads[i]!];
    const move = <P extends Placed>(at: P): P => ({ ...at, x: at.x + right, y: at.y + down });
    for (const [id, box] of layout.boxes) boxes.set(id, move(box));
    for (const [id, frame] of layout.clusters) clusters.set(id, move(frame));
    for (const [key, path] of layout.edges) edges.set(key, movedBy(path, right, down));
    x += layout.width + GAP;
  });
  const frames = [...boxes.values()].map(frameOf);
  for (const edge of contents.edges) {
    const [from, to] = [boxes.get(edge.from.id), boxes.get(edge.to.id)];
    if (!edges.has(edgeKey(edge)) && from && to) edges.set(edgeKey(edge), route(from, to, frames));
  }
  const all = around([...frames, ...clusters.values()])!;
  const engine = layouts.every((l) => l.engine === "graphviz") ? "graphviz" : "layered";
  return { engine, flow: "down", left: all.x, top: all.y, width: all.width, height: all.height, boxes, clusters, edges };
}

/** The height at which a device begins within its column. */
function headOf(column: Contents, layout: Layout): number {
  const tops = column.boxes.flatMap((box) => {
    const device = deviceOf(box);
    const at = device && layout.clusters.get(device.id);
    if (at) return [at.y];
    const closed = device && layout.boxes.get(box.id);
    return closed ? [frameOf(closed).y] : [];
  });
  return Math.min(...tops);
}

function movedBy(path: string, right: number, down: number): string {
  return path.replace(/(-?[\d.]+),(-?[\d.]+)/g, (_, x: string, y: string) =>
    `${(Number(x) + right).toFixed(1)},${(Number(y) + down).toFixed(1)}`); // prettier-ignore
}
