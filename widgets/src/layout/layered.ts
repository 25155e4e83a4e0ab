/** A layout of our own, for the time until Graphviz is there, and for where it takes too long. */

import type { Contents } from "../graph/contents";
import type { Group } from "../graph/groups";
import { sizeOf } from "./dot";
import type { Layout, Placed } from "./types";

const [ACROSS, DOWN, MARGIN, LABEL] = [18, 40, 10, 18];

export function layered(contents: Contents): Layout {
  const ranks = rank(contents);
  const boxes = new Map<string, Placed>();
  let [width, y] = [0, MARGIN + LABEL];
  for (const row of ranks) {
    let [x, tallest] = [MARGIN, 0];
    for (const box of row) {
      const size = sizeOf(box);
      boxes.set(box.id, { x: x + size.width / 2, y: y + size.height / 2, ...size });
      x += size.width + ACROSS;
      tallest = Math.max(tallest, size.height);
    }
    width = Math.max(width, x);
    y += tallest + DOWN;
  }
  const edges = contents.edges.map(({ from, to }) => {
    const [a, b] = [boxes.get(from.id)!, boxes.get(to.id)!];
    const [y0, y1] = [a.y + a.height / 2, b.y - b.height / 2];
    const middle = (y0 + y1) / 2;
    return `M${a.x},${y0}C${a.x},${middle} ${b.x},${middle} ${b.x},${y1}`;
  });
  return { width, height: y, boxes, clusters: around(contents, boxes), edges };
}

/** Boxes by the longest way to them; what would go in circles is taken in the order of boxes. */
function rank(contents: Contents): Contents["boxes"][number][][] {
  const place = new Map(contents.boxes.map((box, i) => [box, i]));
  const ranks = new Map(contents.boxes.map((box) => [box, 0]));
  const edges = contents.edges.filter((e) => place.get(e.from)! < place.get(e.to)!);
  edges.sort((a, b) => place.get(a.to)! - place.get(b.to)!);
  for (const { from, to } of edges) {
    ranks.set(to, Math.max(ranks.get(to)!, ranks.get(from)! + 1));
  }
  const rows: Contents["boxes"][number][][] = [];
  for (const [box, at] of ranks) (rows[at] ??= []).push(box);
  return Array.from(rows, (row) => (row as typeof row | undefined) ?? []);
}

function around(contents: Contents, boxes: ReadonlyMap<string, Placed>): Map<string, Placed> {
  const clusters = new Map<string, Placed>();
  for (const group of [...contents.clusters].reverse()) {
    const parts = contents.boxes.filter((b) => b.home === group).map((b) => boxes.get(b.id)!);
    const inner = parts.map((p) => ({ ...p, x: p.x - p.width / 2, y: p.y - p.height / 2 }));
    const within = group.groups.map((g: Group) => clusters.get(g.id)).filter((p) => p !== undefined);
    const all = [...inner, ...within];
    if (!all.length) continue;
    const x = Math.min(...all.map((p) => p.x)) - MARGIN / 2;
    const y = Math.min(...all.map((p) => p.y)) - LABEL;
    const right = Math.max(...all.map((p) => p.x + p.width)) + MARGIN / 2;
    const bottom = Math.max(...all.map((p) => p.y + p.height)) + MARGIN / 2;
    clusters.set(group.id, { x, y, width: right - x, height: bottom - y });
  }
  return clusters;
}
