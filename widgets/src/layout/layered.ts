/** A layered layout of our own, used until Graphviz has loaded, and where Graphviz does not end. */

import { edgeKey, type Contents } from "../graph/contents";
import type { Group } from "../graph/groups";
import { sizeOf } from "./dot";
import { around, frameOf, link, type Layout, type Scaled } from "./types";

const [ACROSS, DOWN, MARGIN, LABEL] = [18, 40, 10, 18];

export function layered(contents: Contents): Layout {
  const ranks = rank(contents);
  const boxes = new Map<string, Scaled>();
  let [width, y] = [0, MARGIN + LABEL];
  for (const row of ranks) {
    let [x, tallest] = [MARGIN, 0];
    for (const box of row) {
      const size = sizeOf(box);
      boxes.set(box.id, { x: x + size.width / 2, y: y + size.height / 2, ...size, scale: 1 });
      x += size.width + ACROSS;
      tallest = Math.max(tallest, size.height);
    }
    width = Math.max(width, x);
    y += tallest + DOWN;
  }
  const edges = new Map(contents.edges.map((edge) =>
    [edgeKey(edge), link(boxes.get(edge.from.id)!, boxes.get(edge.to.id)!)])); // prettier-ignore
  const clusters = framesOf(contents, boxes);
  return { engine: "layered", flow: "down", left: 0, top: 0, width, height: y, boxes, clusters, edges };
}

/** Boxes by the length of the longest path to them; cycles are broken in the order of boxes. */
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

function framesOf(contents: Contents, boxes: ReadonlyMap<string, Scaled>): Map<string, Scaled> {
  const clusters = new Map<string, Scaled>();
  for (const group of [...contents.clusters].reverse()) {
    const inner = contents.boxes.filter((b) => b.home === group).map((b) => frameOf(boxes.get(b.id)!));
    const within = group.groups.map((g: Group) => clusters.get(g.id)).filter((p) => p !== undefined);
    const all = around([...inner, ...within]);
    if (!all) continue;
    const { x, y, width, height } = all;
    clusters.set(group.id, {
      x: x - MARGIN / 2, y: y - LABEL, width: width + MARGIN, height: height + LABEL + MARGIN / 2, scale: 1,
    }); // prettier-ignore
  }
  return clusters;
}
