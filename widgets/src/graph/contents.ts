/** The contents of a picture, given the open groups: boxes, edges, and clusters. */

import { clip, count } from "../format";
import { walk, type Group, type GroupTree } from "./groups";
import { typeOf } from "./types_of_nodes";
import type { Structure } from "./structure";

export type BoxKind =
  | "op" | "group" | "loop" | "branches" | "variable" | "queue" | "move" | "input" | "output"; // prettier-ignore

export interface Box {
  readonly id: string;
  readonly kind: BoxKind;
  readonly lines: readonly string[];
  /** the closed group that the box stands for, if any */
  readonly group: Group | null;
  /** the node that the box stands for, also if that is a loop or branches; else -1 */
  readonly node: number;
  /** the open group around the box */
  readonly home: Group;
  /** the device of its nodes, if they have one in common */
  readonly device: string;
  /** the name of the queue that the box stands for */
  readonly queue: string;
  /** producers with too many users for edges to be drawn; each has a mark here instead */
  readonly taken: string[];
}

export interface Edge {
  readonly from: Box;
  readonly to: Box;
  kind: "data" | "control" | "state";
  values: number;
  /** bytes of values that go to another device */
  moved: number;
}

export interface Contents {
  /** the group around everything, which has no frame */
  readonly root: Group;
  readonly boxes: readonly Box[];
  readonly edges: readonly Edge[];
  /** open groups that are not empty, each before its inner groups */
  readonly clusters: readonly Group[];
  /** the box of each node; undefined for nodes left out */
  readonly boxOf: readonly (Box | undefined)[];
  /** by box of derivatives, the box of the op that they belong to: both are drawn side by side */
  readonly beside: ReadonlyMap<Box, Box>;
}

/** A key that is equal for edges between the same boxes, also of two pictures. */
export function edgeKey({ from, to }: Edge): string {
  return `${from.id}>${to.id}`;
}

/** number of users of a box from which on edges become marks */
const USERS = 20;
const ENDS = 12;

/** Number of boxes in a group that is open while all groups in it are closed. */
export function boxesIn(group: Group): number {
  return group.groups.length + group.nodes.length;
}

/**
 * Groups to open so that at most `limit` boxes are shown: level by level, small groups first.
 * @param folded whether to open folded groups and runs of nodes, too, which may be large
 * @param forward whether to open only the forward pass of a training step
 */
export function groupsToOpen(tree: GroupTree, limit: number, folded = false, forward = false): Set<string> {
  const open = new Set([tree.root.id]);
  let seen = boxesIn(tree.root);
  let level = tree.root.groups;
  while (level.length) {
    const next: Group[] = [];
    for (const g of [...level].sort((a, b) => boxesIn(a) - boxesIn(b))) {
      if (seen + boxesIn(g) - 1 > limit) continue;
      if (forward && g.kind === "phase" && g.name !== "forward") continue;
      if (!folded && (g.kind === "run" || g.kind === "fold") && boxesIn(g) > 4) continue;
      seen += boxesIn(g) - 1;
      open.add(g.id);
      next.push(...g.groups);
    }
    level = next;
  }
  return open;
}

/** The outermost closed group around a group, or the group itself if that is closed. */
export function closedAround(group: Group, open: ReadonlySet<string>): Group | null {
  let closed: Group | null = null;
  for (let g: Group | null = group; g; g = g.parent) if (!open.has(g.id)) closed = g;
  return closed;
}

export function contentsOf(tree: GroupTree, open: ReadonlySet<string>): Contents {
  return new Drawing(tree, open).contents();
}

class Drawing {
  private readonly s: Structure;
  private readonly boxes = new Map<string, Box>();
  private readonly edges = new Map<string, Edge>();
  private readonly boxOf: (Box | undefined)[] = [];
  /** the box of the closed group around or at a group; null if none is closed */
  private readonly closed = new Map<Group, Box | null>();

  constructor(
    private readonly tree: GroupTree,
    private readonly open: ReadonlySet<string>,
  ) {
    this.s = tree.structure;
  }

  contents(): Contents {
    const { small } = this.tree;
    for (let i = 0; i < this.s.count; i++) this.boxOf.push(small[i] ? undefined : this.box(i));
    this.joinAll();
    for (const node of this.tree.users) this.resources(node);
    const boxes = [...this.boxes.values()];
    const edges = this.marked(withoutImplied([...this.edges.values()]));
    const homes = new Set(boxes.flatMap((b) => [...around(b.home)]));
    const clusters = [...walk(this.tree.root)].filter((g) => g.parent && homes.has(g));
    return { root: this.tree.root, boxes, edges, clusters, boxOf: this.boxOf, beside: this.beside() };
  }

  /** For each box of derivatives, the box of the op that most of its nodes belong to. */
  private beside(): Map<Box, Box> {
    const votes = new Map<Box, Map<Box, number>>();
    const forward = this.s.numbers("forward");
    for (let i = 0; i < forward.length; i++) {
      const [box, op] = [this.boxOf[i], this.boxOf[forward[i]!]];
      if (!box || !op || box === op) continue;
      const known = votes.get(box) ?? new Map<Box, number>();
      known.set(op, (known.get(op) ?? 0) + 1);
      votes.set(box, known);
    }
    const pairs = [...votes].map(([box, ops]) => [box, [...ops].sort((a, b) => b[1] - a[1])[0]![0]] as const);
    return new Map(pairs);
  }

  private box(node: number): Box {
    const home = this.tree.homes[node]!;
    let closed = this.closed.get(home);
    if (closed === undefined) {
      const group = closedAround(home, this.open);
      closed = group && this.groupBox(group);
      this.closed.set(home, closed);
    }
    return closed ?? this.nodeBox(node, home);
  }

  private add(id: string, make: () => Omit<Box, "id" | "taken">): Box {
    let known = this.boxes.get(id);
    if (!known) {
      known = { ...make(), id, taken: [] };
      this.boxes.set(id, known);
    }
    return known;
  }

  private groupBox(group: Group): Box {
    return this.add(group.id, () => {
      const s = this.s;
      const kind = group.owner < 0 ? "group" : shapeOf(s, group.owner);
      const [first, last] = group.ends;
      const name = group.kind === "run" && !group.name
        ? `${s.text("name", first)} … ${s.text("name", last)}` : group.name; // prettier-ignore
      const total = `${count(group.total)} node${group.total === 1 ? "" : "s"}`;
      const lines = group.owner < 0 ? [clip(name, 28), this.gives(group) || total]
        : [clip(s.text("op", group.owner), 28), `${count(group.total - 1)} inside`]; // prettier-ignore
      return {
        kind: kind === "op" ? "group" : kind, lines, group, node: group.owner,
        home: group.parent!, device: group.devices.size === 1 ? [...group.devices][0]! : "", queue: "",
      }; // prettier-ignore
    });
  }

  /** The type of a scope's result: its last value used in the parent group, or else anywhere outside. */
  private gives(group: Group): string {
    if (group.kind !== "scope" && group.kind !== "fold") return "";
    const { homes, usersOf } = this.tree;
    let [beside, outside] = [-1, -1];
    for (const inner of walk(group)) {
      for (const node of inner.nodes) {
        for (const user of usersOf(node)) {
          const home = user < 0 ? this.tree.root : homes[user]!;
          if (isIn(home, group)) continue;
          outside = Math.max(outside, node);
          if (isIn(home, group.parent!)) beside = Math.max(beside, node);
        }
      }
    }
    const last = beside < 0 ? outside : beside;
    return last < 0 ? "" : clip(this.tree.typeOf(last), 26);
  }

  private nodeBox(node: number, home: Group): Box {
    return this.add(`n${node}`, () => {
      const s = this.s;
      const kind = shapeOf(s, node);
      const op = s.text("op", node);
      const name = s.text("name", node);
      const resources = s.text("resources", node);
      const lines = [kind === "variable" ? clip(resources.split(":")[0]!, 28) : clip(op, 28)];
      if (kind === "variable") lines.push(clip(typeOf(s, node), 24));
      else if (resources) lines.push(clip(`→ ${resources.split(":")[0]!}`, 26));
      else {
        if (!name.startsWith(op)) lines.push(clip(name, 24));
        const spec = this.tree.typeOf(node);
        if (spec) lines.push(clip(spec, 26));
      }
      return { kind, lines, group: null, node, home, device: s.text("device", node), queue: "" };
    });
  }

  private end(kind: "input" | "output", i: number): Box {
    const texts = kind === "input" ? this.s.inputs : this.s.outputs;
    const many = texts.length > ENDS;
    const text = texts[i] ?? "";
    const lines = many ? [`${texts.length} ${kind}s`]
      : kind === "input" ? text.split(": ").map((t) => clip(t, 24))
      : ["result", clip(text, 24)]; // prettier-ignore
    return this.add(many ? `${kind}s` : `${kind}${i}`, () => ({
      kind, lines, group: null, node: -1, home: this.tree.root, device: "", queue: "",
    })); // prettier-ignore
  }

  private joinAll(): void {
    const s = this.s;
    const { small } = this.tree;
    const [froms, tos, outputs] = [s.numbers("from"), s.numbers("to"), s.numbers("output")];
    const devices = s.codes("device");
    for (let e = 0; e < s.edges; e++) {
      const [from, to, output] = [froms[e]!, tos[e]!, outputs[e]!];
      if ((from >= 0 && small[from]) || (to >= 0 && small[to])) continue;
      const target = to < 0 ? this.end("output", -1 - to) : this.boxOf[to]!;
      const source = from < 0 ? this.end("input", -1 - from) : this.boxOf[from]!;
      if (source === target) continue;
      const joined = this.join(source, target, output < 0 ? "control" : "data");
      joined.values += 1;
      const crosses = from >= 0 && to >= 0 && devices[from] !== devices[to];
      if (crosses && output >= 0) joined.moved += Math.max(s.number("bytes", from), 0);
    }
  }

  private join(from: Box, to: Box, kind: Edge["kind"]): Edge {
    const key = `${from.id}>${to.id}`;
    const known = this.edges.get(key);
    if (known) {
      if (known.kind === "control") known.kind = kind;
      return known;
    }
    const made: Edge = { from, to, kind, values: 0, moved: 0 };
    this.edges.set(key, made);
    return made;
  }

  /** Add boxes of queues and similar resources; variables are shown as their reads. */
  private resources(node: number): void {
    const box = this.boxOf[node];
    const text = this.s.text("resources", node);
    if (!box || !text || box.group?.owner === -1) return;
    for (const line of text.split("\n")) {
      const [name = "", type = ""] = line.split(": ");
      if (!isQueue(type)) continue;
      const queue = this.add(`q${name}`, () => ({
        kind: "queue", lines: [clip(name, 24), clip(type, 24)], group: null, node: -1,
        home: box.home, device: "", queue: name,
      })); // prettier-ignore
      const takes = /^(dequeue|take|read|get)/.test(this.s.text("op", node));
      if (takes) this.join(queue, box, "state");
      else this.join(box, queue, "state");
    }
  }

  /** Replace the edges of boxes with very many users by marks. */
  private marked(edges: Edge[]): Edge[] {
    const users = new Map<Box, number>();
    for (const e of edges) users.set(e.from, (users.get(e.from) ?? 0) + 1);
    return edges.filter((e) => {
      if (users.get(e.from)! <= USERS) return true;
      e.to.taken.push(e.from.lines.join(" "));
      return false;
    });
  }
}

/** Drop control edges that other paths between the same boxes imply. */
function withoutImplied(edges: Edge[]): Edge[] {
  const ways = new Map<Box, Box[]>();
  for (const e of edges) {
    if (e.kind === "control") continue;
    const known = ways.get(e.from);
    if (known) known.push(e.to);
    else ways.set(e.from, [e.to]);
  }
  const reached = new Map<Box, Set<Box>>();
  const all = (from: Box): Set<Box> => {
    let met = reached.get(from);
    if (met) return met;
    met = new Set();
    const waiting = [from];
    for (let box = waiting.pop(); box; box = waiting.pop()) {
      for (const next of ways.get(box) ?? []) {
        if (met.has(next)) continue;
        met.add(next);
        waiting.push(next);
      }
    }
    reached.set(from, met);
    return met;
  };
  return edges.filter((e) => e.kind !== "control" || !all(e.from).has(e.to));
}

function isIn(home: Group, group: Group): boolean {
  for (let g: Group | null = home; g; g = g.parent) if (g === group) return true;
  return false;
}

function* around(group: Group): Generator<Group> {
  for (let g: Group | null = group; g; g = g.parent) yield g;
}

/** Whether a resource is a variable: its type is that of a tensor, such as `f32[2]`; others are words. */
function isVariable(type: string): boolean {
  return /^\w+\[/.test(type);
}

/** Whether a resource hands over elements and makes its users wait. */
function isQueue(type: string): boolean {
  return /queue|accumulator|barrier|mutex|reader/.test(type);
}

function shapeOf(s: Structure, node: number): BoxKind {
  const kind = s.text("kind", node);
  if (kind === "loop" || kind === "branches" || kind === "move") return kind;
  const [, type = ""] = s.text("resources", node).split(": ");
  return s.text("op", node) === "read" && isVariable(type) ? "variable" : "op";
}

/** The box in new contents for a chosen box: the same one, the box around it, or its first inner one. */
export function boxNow(box: Box, contents: Contents): Box | null {
  const same = contents.boxes.find((b) => b.id === box.id);
  return same ?? contents.boxOf[box.group ? box.group.ends[0] : box.node] ?? null;
}
