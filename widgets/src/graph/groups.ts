/** Groups of the nodes of a graph: by device, part of a training step, scope, and body of a node. */

import type { Structure } from "./structure";
import { specOf, typeOf } from "./types_of_nodes";

export type GroupKind =
  | "graph" | "device" | "phase" | "scope" | "node" | "body" | "fold" | "run"; // prettier-ignore

export interface Group {
  /** identifier, constant for a graph, under which open groups are remembered */
  readonly id: string;
  name: string;
  readonly kind: GroupKind;
  parent: Group | null;
  groups: Group[];
  /** nodes directly in the group */
  nodes: number[];
  /** the node whose bodies the group holds; else -1 */
  owner: number;
  /** number of nodes at any depth */
  total: number;
  /** devices of its nodes, at any depth */
  devices: ReadonlySet<string>;
  /** first and last of its nodes, at any depth */
  ends: readonly [first: number, last: number];
}

export type Grouping = "scope" | "device";

/** kinds of nodes without a box of their own */
export const SMALL: ReadonlySet<string> = new Set(["constant", "number"]);
/** number of equal groups from which on they are drawn as one */
const ALIKE = 4;
/** number of boxes in a group above which they are cut into runs */
const MOST = 48;

export class GroupTree {
  readonly root: Group;
  /** the group of each node */
  readonly homes: Group[] = [];
  /** 1 for nodes without a box, whose values are shown at their users */
  readonly small: Uint8Array;
  /** nodes that use resources */
  readonly users: readonly number[];
  private users_: ReadonlyMap<number, readonly number[]> | null = null;
  private readonly children = new Map<string, Group>();
  /** cache of groups, by the group around them and the number of the scope */
  private readonly scopes = new Map<Group, Map<number, Group>>();

  constructor(readonly structure: Structure, private readonly by: Grouping) {
    this.root = group("", structure.graph, "graph", null);
    const phases = trainingPhases(structure);
    for (let i = 0; i < structure.count; i++) this.homes.push(this.add(i, by, phases));
    tidy(this.root, structure);
    for (const g of walk(this.root)) for (const n of g.nodes) this.homes[n] = g;
    const kinds = structure.codes("kind");
    this.small = Uint8Array.from(kinds, (k) => Number(SMALL.has(structure.decode(k))));
    const resources = structure.codes("resources");
    this.users = Array.from(this.homes.keys()).filter((i) => structure.decode(resources[i]!) !== "");
  }

  /** The users of a node's values; below 0 for outputs of the graph. */
  readonly usersOf = (node: number): readonly number[] => {
    this.users_ ??= edgesFrom(this.structure, (e) => [this.structure.number("from", e), this.structure.number("to", e)]);
    return this.users_.get(node) ?? [];
  };

  /** The type of a node's value; with its device, if there are several and groups do not show them. */
  typeOf(node: number): string {
    return this.by === "device" ? typeOf(this.structure, node) : specOf(this.structure, node);
  }

  private add(node: number, by: Grouping, phases: readonly string[] | null): Group {
    const s = this.structure;
    const parent = s.number("parent", node);
    let home = this.root;
    let outer = "";
    if (parent >= 0) {
      const owner = this.homes[parent]!;
      const inner = this.nodeGroup(parent, owner);
      home = this.child(inner, "body", s.text("within", node));
      outer = s.text("scope", parent);
    } else {
      const device = by === "device" ? s.text("device", node) : "";
      if (device) home = this.child(home, "device", device);
      if (phases) home = this.child(home, "phase", phases[node]!);
    }
    home = this.scopeIn(home, s.codes("scope")[node]!, outer);
    home.nodes.push(node);
    return home;
  }

  private scopeIn(home: Group, scope: number, outer: string): Group {
    let known = this.scopes.get(home);
    if (!known) this.scopes.set(home, (known = new Map<number, Group>()));
    let group = known.get(scope);
    if (!group) {
      group = home;
      for (const part of scopeParts(this.structure.decode(scope), outer)) group = this.child(group, "scope", part);
      known.set(scope, group);
    }
    return group;
  }

  private child(of: Group, kind: GroupKind, name: string): Group {
    const id = `${of.id}/${kind}:${name}`;
    let made = this.children.get(id);
    if (!made) {
      made = group(id, name, kind, of);
      this.children.set(id, made);
      of.groups.push(made);
    }
    return made;
  }

  /** The group of a node with bodies, which are drawn in it. */
  private nodeGroup(node: number, home: Group): Group {
    if (home.kind === "node" && home.owner === node) return home;
    const made = this.child(home, "node", this.structure.text("name", node));
    if (made.owner < 0) {
      made.owner = node;
      home.nodes = home.nodes.filter((n) => n !== node);
      made.nodes.push(node);
      this.homes[node] = made;
    }
    return made;
  }
}

export function* walk(from: Group): Generator<Group> {
  yield from;
  for (const inner of from.groups) yield* walk(inner);
}

function group(id: string, name: string, kind: GroupKind, parent: Group | null): Group {
  return { id, name, kind, parent, groups: [], nodes: [], owner: -1, total: 0, devices: new Set(), ends: [-1, -1] };
}

function scopeParts(scope: string, outer: string): string[] {
  const within = outer && (scope === outer || scope.startsWith(`${outer}/`));
  const rest = within ? scope.slice(outer.length + 1) : scope;
  return rest ? rest.split("/") : [];
}

// --- parts of a training step -------------------------------------------------------------------

/**
 * The part of a training step that each node belongs to: forward, backward or update; null without
 * derivatives.
 */
export function trainingPhases(s: Structure): string[] | null {
  const forward = (i: number): boolean => s.number("forward", i) >= 0;
  const derived = Array.from({ length: s.count }, (_, i) => i).filter(forward);
  if (!derived.length) return null;
  const after = edgesFrom(s, (e) => [s.number("from", e), s.number("to", e)]);
  const before = edgesFrom(s, (e) => [s.number("to", e), s.number("from", e)]);
  const first = Math.min(...derived);
  const reaching = spread(derived, before); // derivatives, and all nodes that they depend on
  const reached = spread(derived, after);
  const phases = Array.from({ length: s.count }, (_, i) => {
    if (forward(i) || (reaching.has(i) && reached.has(i))) return "backward";
    return reached.has(i) || (!reaching.has(i) && i > first) ? "update" : "forward";
  });
  for (let i = s.count - 1; i >= 0; i--) {
    const users = after.get(i) ?? [];
    if (phases[i] === "forward" && users.length && users.every((u) => phases[u] === "update")) phases[i] = "update";
  }
  return phases;
}

function edgesFrom(s: Structure, ends: (edge: number) => [number, number]): Map<number, number[]> {
  const successors = new Map<number, number[]>();
  for (let e = 0; e < s.edges; e++) {
    const [from, to] = ends(e);
    if (from < 0 || s.number("output", e) < 0) continue;
    const known = successors.get(from);
    if (known) known.push(to);
    else successors.set(from, [to]);
  }
  return successors;
}

function spread(from: readonly number[], ways: ReadonlyMap<number, readonly number[]>): Set<number> {
  const met = new Set(from);
  const waiting = [...from];
  for (let i = waiting.pop(); i !== undefined; i = waiting.pop()) {
    for (const next of ways.get(i) ?? []) {
      if (next < 0 || met.has(next)) continue;
      met.add(next);
      waiting.push(next);
    }
  }
  return met;
}

// --- groups that are too large, or equal --------------------------------------------------------

const PHASES = ["forward", "backward", "update"];

function tidy(of: Group, s: Structure): string {
  if (of.groups.every((g) => g.kind === "phase")) {
    of.groups.sort((a, b) => PHASES.indexOf(a.name) - PHASES.indexOf(b.name));
  }
  const shapes = of.groups.map((g) => tidy(g, s));
  summarise(of, s);
  fold(of, shapes, s);
  cut(of, s);
  const name = of.name.replace(/\d+/g, "#");
  return `${of.kind} ${name} ${of.nodes.length} (${shapes.sort().join()})`;
}

/** Compute the summary of a group that is shown while it is closed. */
function summarise(of: Group, s: Structure): void {
  of.total = of.nodes.length + of.groups.reduce((sum, g) => sum + g.total, 0);
  const devices = new Set(of.nodes.map((n) => s.text("device", n)));
  for (const g of of.groups) for (const device of g.devices) devices.add(device);
  devices.delete("");
  of.devices = devices;
  const firsts = [...of.nodes.slice(0, 1), ...of.groups.map((g) => g.ends[0])];
  const lasts = [...of.nodes.slice(-1), ...of.groups.map((g) => g.ends[1])];
  of.ends = [Math.min(...firsts), Math.max(...lasts)];
}

/** Put groups of equal shape, such as equal layers, into one. */
function fold(of: Group, shapes: readonly string[], s: Structure): void {
  const alike = new Map<string, Group[]>();
  of.groups.forEach((g, i) => {
    if (g.kind !== "scope") return;
    const known = alike.get(shapes[i]!);
    if (known) known.push(g);
    else alike.set(shapes[i]!, [g]);
  });
  for (const some of alike.values()) {
    if (some.length < ALIKE) continue;
    const first = some[0]!;
    const name = `${first.name.replace(/[._]?\d+$/, "") || first.name} ×${some.length}`;
    gather(of, group(`${first.id}×`, name, "fold", of), some, s);
  }
}

/** Cut the nodes and groups of a large group into consecutive runs. */
function cut(of: Group, s: Structure): void {
  while (of.nodes.length > MOST) {
    const size = Math.max(Math.ceil(of.nodes.length / (MOST / 2)), 4);
    const runs: number[][] = [];
    for (let i = 0; i < of.nodes.length; i += size) runs.push(of.nodes.slice(i, i + size));
    of.nodes = [];
    for (const run of runs) {
      const id = `${of.id}/run:${run[0]!}`;
      const made = group(id, "", "run", of);
      made.nodes = run;
      summarise(made, s);
      of.groups.push(made);
    }
  }
  if (of.groups.length <= MOST) return;
  const size = Math.ceil(of.groups.length / (MOST / 2));
  const all = of.groups;
  for (let i = 0; i < all.length; i += size) {
    const some = all.slice(i, i + size);
    const name = `${some[0]!.name} … ${some[some.length - 1]!.name}`;
    gather(of, group(`${of.id}/runs:${i}`, name, "run", of), some, s);
  }
}

function gather(of: Group, into: Group, groups: Group[], s: Structure): void {
  into.groups = groups;
  summarise(into, s);
  const position = of.groups.indexOf(groups[0]!);
  const moved = new Set(groups);
  for (const g of groups) g.parent = into;
  of.groups = of.groups.filter((g) => !moved.has(g));
  of.groups.splice(position, 0, into);
}
