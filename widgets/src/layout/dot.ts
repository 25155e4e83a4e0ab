/** Graphs in the language of Graphviz, and layouts from its output. */

import { edgeKey, type Box, type Contents, type Edge } from "../graph/contents";
import type { Group } from "../graph/groups";
import type { Flow, Layout, Scaled } from "./types";

const POINTS = 72;
const QUICK = 100;
const STRAIGHT = 300;
/** weight of an edge between computations, which keeps them in one line; a variable lies beside */
const CHAIN = 6;
/** pixels of a letter in the first line of a box, and in other lines; and of a line */
const [CHARACTER, SMALL] = [7.3, 6.6];
export const LINE = 15.5;
/** pixels for the sign of a closed group, on both sides, as its name is centred */
const SIGN = 16;

/** The size of a box in pixels, at full scale. */
export function sizeOf(box: Box): { width: number; height: number } {
  const [first = "", ...rest] = box.lines;
  const sign = box.group ? SIGN : 0;
  const width = Math.max(first.length * CHARACTER + sign, ...rest.map((l) => l.length * SMALL), 36) + 18;
  const lid = box.kind === "variable" || box.kind === "queue" ? 6 : 0;
  return { width: Math.round(width), height: 8 + LINE * box.lines.length + lid };
}

/**
 * A graph in the language of Graphviz.
 * @param flow direction of the drawing
 */
export function writeDot(contents: Contents, flow: Flow): string {
  const keys = new Map(contents.boxes.map((box, i) => [box, `b${i}`]));
  const inside = new Map<Group, Box[]>();
  for (const box of contents.boxes) {
    const known = inside.get(box.home);
    if (known) known.push(box);
    else inside.set(box.home, [box]);
  }
  const drawn = new Set(contents.clusters);
  const lines = ["digraph {", `graph [rankdir=${flow === "down" ? "TB" : "LR"} newrank=true nodesep=0.2 ranksep=0.22 margin=0 pad=0]`];
  if (contents.boxes.length > QUICK) lines.push("graph [nslimit=1 nslimit1=1 mclimit=0.05]");
  if (contents.edges.length > STRAIGHT) lines.push("graph [splines=line]");
  lines.push('node [shape=box fixedsize=true label=""]', "edge [arrowhead=none]");
  const draw = (group: Group): void => {
    for (const box of inside.get(group) ?? []) {
      const { width, height } = sizeOf(box);
      lines.push(`${keys.get(box)!} [width=${width / POINTS} height=${height / POINTS}]`);
    }
    for (const inner of group.groups) {
      if (!drawn.has(inner)) continue;
      lines.push(`subgraph cluster${contents.clusters.indexOf(inner)} {`);
      // room for the name, which is drawn above the contents of the cluster
      lines.push(`margin=8 label=<<table border="0" cellborder="0" cellspacing="0" cellpadding="0"><tr><td width="${labelWidth(inner)}" height="16" fixedsize="true"></td></tr></table>>`);
      draw(inner);
      lines.push("}");
    }
  };
  draw(contents.root);
  for (const [box, op] of contents.beside) {
    // not for a closed part of a step, with which all boxes would be in one row
    if (phaseOf(box) && op.group?.kind !== "phase") lines.push(`{rank=same ${keys.get(op)!} ${keys.get(box)!}}`);
  }
  for (const edge of contents.edges) lines.push(lineOf(edge, keys));
  lines.push("}");
  return lines.join("\n");
}

function lineOf(edge: Edge, keys: ReadonlyMap<Box, string>): string {
  const weight = edge.kind !== "data" ? 1 : edge.from.kind === "variable" ? 2 : CHAIN;
  const [a, b] = [keys.get(edge.from)!, keys.get(edge.to)!];
  const [from, to] = [phaseOf(edge.from), phaseOf(edge.to)];
  if (from !== to && from && to) return `${a} -> ${b} [constraint=false]`;
  return rises(edge) ? `${b} -> ${a} [weight=${weight}]` : `${a} -> ${b} [weight=${weight}]`;
}

/**
 * The part of a training step that a box belongs to, if such parts are drawn side by side; else
 * empty. Within a device they are drawn one below the other, as devices are side by side.
 */
function phaseOf(box: Box): string {
  for (let g: Group | null = box.group ?? box.home; g; g = g.parent) {
    if (g.kind === "phase") return g.parent?.kind === "device" ? "" : g.name;
  }
  return "";
}

/** Whether an edge is drawn upwards: derivatives are, so that each lies beside its op. */
function rises(edge: Edge): boolean {
  return phaseOf(edge.from) === "backward" && phaseOf(edge.to) === "backward";
}

function labelWidth(group: Group): number {
  return Math.min(Math.round(group.name.length * CHARACTER) + 36, 240);
}

interface Drawn {
  bb: string;
  objects?: { _gvid: number; name: string; bb?: string; pos?: string }[];
  edges?: { tail: number; head: number; pos?: string }[];
}

export function readLayout(text: string, contents: Contents, flow: Flow): Layout {
  const drawn = JSON.parse(text) as Drawn;
  const objects = drawn.objects ?? [];
  const [, , width = 0, height = 0] = numbers(drawn.bb);
  const boxes = new Map<string, Scaled>();
  const clusters = new Map<string, Scaled>();
  for (const { name, bb, pos } of objects) {
    if (bb && name.startsWith("cluster")) {
      const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = numbers(bb);
      const group = contents.clusters[Number(name.slice(7))]!;
      clusters.set(group.id, { x: x0, y: height - y1, width: x1 - x0, height: y1 - y0, scale: 1 });
    } else if (pos) {
      const [x = 0, y = 0] = numbers(pos);
      const box = contents.boxes[Number(name.slice(1))]!;
      boxes.set(box.id, { x, y: height - y, ...sizeOf(box), scale: 1 });
    }
  }
  const edges = edgesOf(drawn, contents, height);
  return { engine: "graphviz", flow, left: 0, top: 0, width, height, boxes, clusters, edges };
}

function numbers(text: string): number[] {
  return text.split(",").map(Number);
}

/** The paths of edges, which Graphviz gives in its own order; between two boxes there is one per direction. */
function edgesOf(drawn: Drawn, contents: Contents, height: number): Map<string, string> {
  const names = new Map(drawn.objects?.map((o) => [o._gvid, o.name]));
  const paths = new Map<string, string>();
  for (const { tail, head, pos } of drawn.edges ?? []) {
    paths.set(`${names.get(tail)!}>${names.get(head)!}`, curve(pos ?? "", height));
  }
  const keys = new Map(contents.boxes.map((box, i) => [box, `b${i}`]));
  return new Map(contents.edges.map((e) => {
    const [a, b] = [keys.get(e.from)!, keys.get(e.to)!];
    return [edgeKey(e), paths.get(`${a}>${b}`) ?? reversed(paths.get(`${b}>${a}`) ?? "")];
  })); // prettier-ignore
}

/** The reverse of a path of one curve or several. */
function reversed(path: string): string {
  const points = path.split(/[MC ]/).filter(Boolean).reverse();
  return points.length ? `M${points[0]!}C${points.slice(1).join(" ")}` : "";
}

/** A path of SVG from Graphviz's output: points of Bézier curves, perhaps with marked ends. */
function curve(pos: string, height: number): string {
  const points = pos.split(" ").filter((p) => p && !/^[es],/.test(p));
  const text = points.map((p) => {
    const [x = 0, y = 0] = p.split(",").map(Number);
    return `${x.toFixed(1)},${(height - y).toFixed(1)}`;
  });
  return text.length ? `M${text[0]!}C${text.slice(1).join(" ")}` : "";
}
